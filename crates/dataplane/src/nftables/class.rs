//! Class chains: what happens to a packet is a function of (kind of destination, pool size) only, so a
//! chain is shared by every service of that class and no chain is made per service.

use model::Masquerade;

use super::sets::{Door, SetName};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Draw an endpoint.
    Plain,
    /// Mark for masquerade, then draw.
    Masquerade,
    /// Pods of this node and the node itself: mark unless it is a pod, draw from the internal pool.
    Internal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Class {
    pub(crate) door: Door,
    pub(crate) kind: Kind,
    /// Try the client's pin before drawing.
    pub(crate) affine: bool,
    pub(crate) size: u32,
}

impl Class {
    pub(crate) fn name(&self) -> String {
        let door = match self.door {
            Door::Vip => "",
            Door::NodePort => "np-",
        };
        let kind = match (self.kind, self.affine) {
            (Kind::Plain, false) if self.door == Door::NodePort => "",
            (Kind::Plain, false) => "lb-",
            (Kind::Plain, true) => "aff-",
            (Kind::Masquerade, false) => "ext-",
            (Kind::Masquerade, true) => "ext-aff-",
            (Kind::Internal, false) => "int-",
            (Kind::Internal, true) => "int-aff-",
        };
        format!("{door}{kind}{}", self.size)
    }

    /// The class whose chain this one goes to, if it does not draw itself.
    pub(crate) fn next(&self) -> Option<Class> {
        match (self.kind, self.affine) {
            (Kind::Masquerade, _) => Some(Class { kind: Kind::Plain, ..*self }),
            (Kind::Plain | Kind::Internal, true) => Some(Class { affine: false, ..*self }),
            (Kind::Plain | Kind::Internal, false) => None,
        }
    }

    /// The slot map that this class draws from.
    pub(crate) fn pool(&self) -> SetName {
        match self.kind {
            Kind::Plain | Kind::Masquerade => SetName::Endpoints(self.door),
            Kind::Internal => SetName::InternalEndpoints(self.door),
        }
    }
}

/// The kind that serves a destination which answers every client alike.
pub(crate) fn kind_of(masquerade: Masquerade) -> Kind {
    match masquerade {
        Masquerade::Outsiders => Kind::Plain,
        Masquerade::Everyone => Kind::Masquerade,
    }
}
