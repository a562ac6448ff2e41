//! Where a new connection to a destination with affinity is recorded: which endpoints a pin may name, and for how long.

use model::Pool;

use crate::pool::{PoolId, PortId};
use crate::sets::Door;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pinning {
    pub door: Door,
    pub seconds: u32,
    pub members: Members,
}

/// The endpoints that a pin may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Members {
    /// Listed per destination in the common set.
    Common,
    /// Those of these pools of the port, which has its own.
    Own { port: PortId, pools: [bool; 2] },
}

impl Pinning {
    /// The chain that a destination with affinity leads to.
    pub fn chain(&self) -> String {
        let door = match self.door {
            Door::Vip => "",
            Door::NodePort => "nodeport-",
        };
        let seconds = self.seconds;
        match self.members {
            Members::Common => format!("affinity-{door}pin-{seconds}"),
            Members::Own { port, pools } => {
                let kind = match pools {
                    [true, true] => "any",
                    [_, true] => "local",
                    [_, false] => "cluster",
                };
                format!("pool-{port}-{kind}-{door}pin-{seconds}")
            }
        }
    }

    /// The own pools whose endpoints are members.
    pub fn pools(&self) -> impl Iterator<Item = PoolId> + use<> {
        let own = match self.members {
            Members::Common => None,
            Members::Own { port, pools } => Some((port, pools)),
        };
        own.into_iter().flat_map(|(port, pools)| {
            let of_port = Pool::BOTH.into_iter().filter(move |pool| pools[*pool as usize]);
            of_port.map(move |pool| PoolId { port, pool })
        })
    }

    /// The chain that writes the pins of this timeout.
    pub fn writing_chain(&self) -> String {
        writing_chain(self.door, self.seconds)
    }
}

pub(crate) fn writing_chain(door: Door, seconds: u32) -> String {
    match door {
        Door::Vip => format!("affinity-write-{seconds}"),
        Door::NodePort => format!("affinity-nodeport-write-{seconds}"),
    }
}
