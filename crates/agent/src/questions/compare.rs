//! What the kernel holds for services, compared in pieces that hold no sync up.

use std::str::FromStr;

use dataplane::{Backend, Look, Position, Reconciler};
use model::{Family, ServiceKey};

/// Services that are compared with the kernel in one answer of the sync thread; and elements after which it is enough: less
/// than a millisecond.
const MOST_INSPECTED: usize = 8;
const ENOUGH_COMPARED: usize = 200;

/// Where to go on in a service: by [`Family::index`], and among its addresses there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cursor {
    family: usize,
    position: Position,
}

/// Which services are compared.
#[derive(Debug)]
pub(crate) struct Wanted {
    services: Vec<ServiceKey>,
    /// In the first of them.
    from: Cursor,
    /// By [`Family::index`].
    families: [bool; 2],
}

/// What the kernel holds for the addresses of some services.
#[derive(Debug)]
pub(crate) struct InspectedServices {
    /// How many services were looked at wholly, from the first on.
    pub(crate) count: usize,
    /// Where to go on in the next one.
    pub(crate) next: Cursor,
    pub(crate) looks: Vec<(ServiceKey, Look)>,
}

impl Wanted {
    /// The first of these.
    pub(crate) fn new(services: &[ServiceKey], from: Cursor, families: [bool; 2]) -> Wanted {
        let services = services.get(..MOST_INSPECTED).unwrap_or(services).to_vec();
        Wanted { services, from, families }
    }

    pub(crate) fn families(&self) -> impl Iterator<Item = Family> {
        let families = self.families;
        Family::BOTH.into_iter().filter(move |family| families[family.index()])
    }
}

/// Look at services until it is enough.
pub(crate) fn inspect<B: Backend>(wanted: &Wanted, reconciler: &mut Reconciler<B>) -> InspectedServices {
    let mut done = InspectedServices { count: 0, next: wanted.from, looks: Vec::new() };
    let mut room = ENOUGH_COMPARED;
    for service in &wanted.services {
        let from = std::mem::take(&mut done.next);
        for family in wanted.families().filter(|family| family.index() >= from.family) {
            let start = if family.index() == from.family { from.position } else { Position::default() };
            let (compared, looks, next) = reconciler.inspect_service(family, service, start, room);
            room = room.saturating_sub(compared);
            done.looks.extend(looks.into_iter().map(|look| (service.clone(), look)));
            if let Some(position) = next {
                done.next = Cursor { family: family.index(), position };
                return done;
            }
        }
        done.count += 1;
        if room == 0 {
            break;
        }
    }
    done
}

/// `0.1.2`
impl std::fmt::Display for Cursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Cursor { family, position: Position { port, address } } = self;
        write!(f, "{family}.{port}.{address}")
    }
}

impl FromStr for Cursor {
    type Err = ();

    fn from_str(text: &str) -> Result<Cursor, ()> {
        let numbers: Vec<usize> =
            text.split('.').map(str::parse).collect::<Result<_, _>>().map_err(|_| ())?;
        let [family, port, address] = numbers[..] else { return Err(()) };
        Ok(Cursor { family, position: Position { port, address } })
    }
}
