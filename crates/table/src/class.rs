//! Class chains: what happens to a packet is a function of (kind of destination, where to draw) only, so a
//! chain is shared by every service of that class. Only a port with a pool of its own has chains of its own.

use model::Masquerade;

use crate::pool::PoolId;
use crate::sets::{Door, SetName};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Draw an endpoint.
    Plain,
    /// Mark for masquerade, then draw.
    Masquerade,
    /// Pods of this node and the node itself: mark unless it is a pod, draw from the internal pool.
    Internal,
}

/// Where an endpoint is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Draw {
    /// Among so many slots of the destination in the common map.
    Common(u32),
    /// In the map of the port. How many slots that has is not part of the class: the chain's one rule says it.
    Own(PoolId),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Class {
    pub door: Door,
    pub kind: Kind,
    /// Try the client's pin before drawing.
    pub affine: bool,
    pub draw: Draw,
}

impl Class {
    pub fn new(door: Door, kind: Kind, affine: bool, draw: Draw) -> Class {
        // A pool of its own is drawn from without looking at the packet; only a pin has the destination in its key.
        let door = if matches!(draw, Draw::Own(_)) && !affine { Door::Vip } else { door };
        Class { door, kind, affine, draw }
    }

    pub fn name(&self) -> String {
        let door = match self.door {
            Door::Vip => "",
            Door::NodePort => "np-",
        };
        let kind = match (self.kind, self.affine) {
            (Kind::Plain, false) if self.door == Door::NodePort => "",
            (Kind::Plain, false) if matches!(self.draw, Draw::Own(_)) => "",
            (Kind::Plain, false) => "lb-",
            (Kind::Plain, true) => "aff-",
            (Kind::Masquerade, false) => "ext-",
            (Kind::Masquerade, true) => "ext-aff-",
            (Kind::Internal, false) => "int-",
            (Kind::Internal, true) => "int-aff-",
        };
        match self.draw {
            Draw::Common(size) => format!("{door}{kind}{size}"),
            Draw::Own(pool) => format!("{door}{kind}{}", pool.name()),
        }
    }

    /// The class whose chain this one goes to, if it does not draw itself.
    pub fn next(&self) -> Option<Class> {
        let Class { door, kind, affine, draw } = *self;
        match (kind, affine, draw) {
            (Kind::Masquerade, ..) => Some(Class::new(door, Kind::Plain, affine, draw)),
            (_, true, _) => Some(Class::new(door, kind, false, draw)),
            (Kind::Internal, false, Draw::Own(_)) => Some(Class::new(door, Kind::Plain, false, draw)),
            (_, false, _) => None,
        }
    }

    /// The slot map that this class draws from.
    pub fn pool(&self) -> SetName {
        match (self.draw, self.kind) {
            (Draw::Own(pool), _) => SetName::Pool(pool),
            (Draw::Common(_), Kind::Plain | Kind::Masquerade) => SetName::Endpoints(self.door),
            (Draw::Common(_), Kind::Internal) => SetName::InternalEndpoints(self.door),
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
