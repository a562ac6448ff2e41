//! The elements of one address and port, read back one by one: the kernel is asked for these keys alone.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use kernel::nft::{DumpedElement, ElementData, Error, Transport};
use model::{Address, Family, Role};

use table::{Data, Door, Element, Fields, Picker, RenderedPort, SetName, TABLE, TableSetup, destination_key};

use crate::inspection::{Inspected, Inspection, Pinned};

/// Elements that are read for a question: a few microseconds each.
const MOST_READ: usize = 160;

pub(super) fn inspect<T: Transport>(
    transport: &mut T,
    setup: &TableSetup,
    inspected: &Inspected<'_>,
) -> Result<Inspection, Error> {
    let mut reader = Reader { transport, setup, inspection: Inspection::default() };
    let wanted = expected(setup, inspected);
    let mut places: Vec<(SetName, Fields)> =
        wanted.iter().map(|element| (element.set, element.key)).collect();
    for at in inspected.addresses() {
        let (door, key) = destination_key(at, inspected.protocol);
        places.extend(keyed_by_destination(setup, door).map(|set| (set, key)));
    }
    let ip = Fields::new().ip(inspected.to.ip());
    places.push((SetName::ClusterIps, ip));
    places.sort_unstable();
    places.dedup();
    reader.inspection.is_partial = places.len() > MOST_READ;
    for (set, key) in places.into_iter().take(MOST_READ) {
        let expected = match set {
            SetName::ClusterIps => inspected.is_live.then(present),
            _ => wanted.iter().find(|one| one.place() == (set, &key)).map(words),
        };
        reader.compare(set, &key, expected)?;
    }
    let serves = inspected.node.nodeport_ips.contains(&inspected.to.ip());
    reader.compare(SetName::NodeportIps, &ip, serves.then(present))?;
    if let (Some(client), Some(owner)) = (inspected.client, inspected.owner) {
        let (door, key) = destination_key(owner.destination.at, inspected.protocol);
        let is_pinned = owner.port.affinity_seconds.is_some();
        let pin = if is_pinned { reader.pin(door, &Fields::new().ip(client).append(&key))? } else { None };
        reader.inspection.pin = pin;
    }
    Ok(reader.inspection)
}

/// What the owner put there.
fn expected(setup: &TableSetup, inspected: &Inspected<'_>) -> Vec<Element> {
    let Some(owner) = inspected.owner else { return Vec::new() };
    let rendered = RenderedPort::new(owner.service, owner.port, setup);
    let (door, key) = destination_key(owner.destination.at, owner.port.protocol);
    let is_of_destination = |element: &Element| {
        element.set == SetName::Hairpin
            || element.set.door() == Some(door) && element.key.as_slice().starts_with(key.as_slice())
    };
    let elements = rendered.elements_of(std::slice::from_ref(owner.destination));
    let mut elements: Vec<Element> = elements.into_iter().filter(is_of_destination).collect();
    let room = (MOST_READ + 1).saturating_sub(elements.len());
    elements.extend(table::own_pool_elements(&rendered).take(room));
    if owner.destination.role == Role::ClusterIp
        && let Address::Vip(ip, _) = owner.destination.at
    {
        let key = Fields::new().ip(ip);
        elements.push(Element { set: SetName::ClusterIps, key, data: Data::None, label: None });
    }
    elements
}

/// The sets that say what becomes of a destination.
fn keyed_by_destination(setup: &TableSetup, door: Door) -> impl Iterator<Item = SetName> + use<> {
    use SetName::{Affine, Drop, Firewall, Internal, Ipvs, Local, Masquerade, Reject, Service};
    let everywhere = [Service(door), Local(door), Internal(door), Reject(door), Drop(door), Affine(door)];
    let at_vip = (door == Door::Vip).then_some(Firewall);
    let beside_ipvs = (setup.picker != Picker::Rules).then_some(Masquerade(door));
    let at_vip_of_ipvs = (setup.picker != Picker::Rules && door == Door::Vip).then_some(Ipvs);
    everywhere.into_iter().chain(at_vip).chain(beside_ipvs).chain(at_vip_of_ipvs)
}

fn present() -> String {
    "there".to_owned()
}

fn words(element: &Element) -> String {
    match &element.data {
        Data::None => present(),
        Data::Endpoint(endpoint) => value(endpoint.as_slice()),
        Data::Goto(class) => format!("goto {}", class.name()),
        Data::Pin(pinning) => format!("goto {}", pinning.chain()),
        Data::Counter => format!("counter {}", element.label.as_deref().unwrap_or_default()),
    }
}

fn found_words(element: &DumpedElement<'_>) -> String {
    match element.data {
        ElementData::None => present(),
        ElementData::Value(bytes) => value(bytes),
        ElementData::Goto(chain) => format!("goto {chain}"),
        ElementData::Counter(name) => format!("counter {name}"),
    }
}

/// An endpoint, as far as the bytes are one.
fn value(bytes: &[u8]) -> String {
    endpoint(bytes).map_or_else(|| format!("{bytes:02x?}"), |at| at.to_string())
}

fn endpoint(bytes: &[u8]) -> Option<SocketAddr> {
    let (ip, port) = bytes.split_at_checked(bytes.len().checked_sub(4)?)?;
    let ip: IpAddr = match ip.len() {
        4 => Ipv4Addr::from(*ip.first_chunk()?).into(),
        16 => Ipv6Addr::from(*ip.first_chunk()?).into(),
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_be_bytes(*port.first_chunk()?)))
}

struct Reader<'a, T> {
    transport: &'a mut T,
    setup: &'a TableSetup,
    inspection: Inspection,
}

impl<T: Transport> Reader<'_, T> {
    fn find(
        &mut self,
        set: SetName,
        key: &Fields,
        each: &mut dyn FnMut(DumpedElement<'_>),
    ) -> Result<bool, Error> {
        self.transport.find_element(self.setup.nft_family(), TABLE, &set.name(), key.as_slice(), each)
    }

    fn compare(&mut self, set: SetName, key: &Fields, expected: Option<String>) -> Result<(), Error> {
        let mut found = None;
        self.find(set, key, &mut |element| found = Some(found_words(&element)))?;
        let family = self.setup.family;
        self.inspection.compare(|| place(set, key, family), expected, found);
        Ok(())
    }

    fn pin(&mut self, door: Door, key: &Fields) -> Result<Option<Pinned>, Error> {
        let mut pin = None;
        self.find(SetName::Pins(door), key, &mut |element| {
            let ElementData::Value(bytes) = element.data else { return };
            let left = element.expires_ms.map(Duration::from_millis);
            pin = endpoint(bytes).map(|to| Pinned { to, left });
        })?;
        Ok(pin)
    }
}

/// As `nft` would name it.
fn place(set: SetName, key: &Fields, family: Family) -> String {
    let table = match family {
        Family::V4 => "ip",
        Family::V6 => "ip6",
    };
    format!("{table} {TABLE} {} {{ {} }}", set.name(), set.key_words(key.as_slice(), family))
}
