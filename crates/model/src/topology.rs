//! Same node, then same zone, then everywhere: which endpoints topology hints leave.
