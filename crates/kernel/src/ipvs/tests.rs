//! The bytes of commands, and what is read from answers.

use std::net::IpAddr;

use super::sys::*;
use super::*;
use crate::netlink::{Attribute, Message, Writer, attributes, generic, messages};

const WEB: VirtualServer = VirtualServer {
    address: IpAddr::V4(std::net::Ipv4Addr::new(10, 96, 0, 1)),
    protocol: Protocol::Tcp,
    port: 80,
};

fn six() -> VirtualServer {
    VirtualServer { address: "fd00:96::1".parse().unwrap(), protocol: Protocol::Sctp, port: 443 }
}

fn written(fill: impl FnOnce(&mut Writer)) -> Writer {
    let mut writer = Writer::default();
    let message = writer.begin(0x20, 0, 1, &generic::header(NEW_SERVICE, VERSION));
    fill(&mut writer);
    writer.end(message);
    writer
}

fn message(writer: &Writer) -> Message<'_> {
    messages(writer.bytes()).next().unwrap()
}

fn value<'a>(inside: &Attribute<'a>, kind: u16) -> Option<&'a [u8]> {
    inside.nested().find(|one| one.kind == kind).map(|one| one.value)
}

fn nest<'a>(message: &Message<'a>, kind: u16) -> Option<Attribute<'a>> {
    attributes(&message.payload[generic::HEADER..]).find(|one| one.kind == kind)
}

#[test]
fn a_service_has_all_that_the_kernel_demands() {
    let settings = Settings::new("sh").with_flags(flags::HASH_PORT).persistent(300);
    let written = written(|to| encode::command(to, &Command::NewService(WEB, settings)));
    let service = nest(&message(&written), SERVICE).unwrap();
    assert_eq!(value(&service, SERVICE_FAMILY), Some(&2u16.to_ne_bytes()[..]));
    assert_eq!(value(&service, SERVICE_PROTOCOL), Some(&6u16.to_ne_bytes()[..]));
    assert_eq!(
        value(&service, SERVICE_ADDRESS),
        Some(&[10, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0][..])
    );
    assert_eq!(value(&service, SERVICE_PORT), Some(&[0, 80][..]));
    assert_eq!(value(&service, SERVICE_SCHEDULER), Some(&b"sh\0"[..]));
    let flags = [17u32.to_ne_bytes(), flags::ALL.to_ne_bytes()];
    assert_eq!(value(&service, SERVICE_FLAGS), Some(flags.as_flattened()));
    assert_eq!(value(&service, SERVICE_TIMEOUT), Some(&300u32.to_ne_bytes()[..]));
    assert_eq!(value(&service, SERVICE_NETMASK), Some(&[0xff; 4][..]));
}

#[test]
fn an_ipv6_mask_is_a_length() {
    let written = written(|to| encode::command(to, &Command::SetService(six(), Settings::new("rr"))));
    let service = nest(&message(&written), SERVICE).unwrap();
    assert_eq!(value(&service, SERVICE_FAMILY), Some(&10u16.to_ne_bytes()[..]));
    assert_eq!(value(&service, SERVICE_NETMASK), Some(&128u32.to_ne_bytes()[..]));
}

#[test]
fn the_flag_of_the_kernel_is_never_touched() {
    assert_eq!(flags::ALL & FLAG_HASHED, 0);
}

#[test]
fn deleting_takes_the_keys_alone() {
    let to = Destination { address: "10.0.0.1".parse().unwrap(), port: 8080 };
    let written = written(|message| encode::command(message, &Command::DeleteDestination(WEB, to)));
    let message = message(&written);
    assert_eq!(value(&nest(&message, SERVICE).unwrap(), SERVICE_SCHEDULER), None);
    let destination = nest(&message, DEST).unwrap();
    assert_eq!(value(&destination, DEST_PORT), Some(&[0x1f, 0x90][..]));
    assert_eq!(value(&destination, DEST_WEIGHT), None);
}

#[test]
fn a_server_is_read_without_the_flag_of_the_kernel() {
    let written = written(|message| {
        let nest = message.nest(SERVICE);
        message.u16(SERVICE_FAMILY, 10);
        message.u16(SERVICE_PROTOCOL, 132);
        let IpAddr::V6(address) = six().address else { unreachable!() };
        message.attribute(SERVICE_ADDRESS, &address.octets());
        message.be16(SERVICE_PORT, 443);
        message.string(SERVICE_SCHEDULER, "mh");
        message.attribute(SERVICE_FLAGS, [19u32.to_ne_bytes(), u32::MAX.to_ne_bytes()].as_flattened());
        message.u32(SERVICE_TIMEOUT, 60);
        message.u32(SERVICE_NETMASK, 64);
        let stats = message.nest(SERVICE_STATS64);
        message.attribute(STATS_CONNECTIONS, &7u64.to_ne_bytes());
        message.attribute(STATS_OUT_BYTES, &u64::MAX.to_ne_bytes());
        message.end_nest(stats);
        message.end_nest(nest);
    });
    let expected = DumpedServer {
        server: six(),
        settings: Settings::new("mh").with_flags(flags::HASH_PORT).persistent(60),
        by_network: true,
        statistics: Statistics { connections: 7, out_bytes: u64::MAX, ..Statistics::default() },
    };
    assert_eq!(decode::server(&message(&written)), Some(expected));
}

#[test]
fn a_destination_without_family_has_that_of_its_server() {
    let written = written(|message| {
        let nest = message.nest(DEST);
        message.attribute(DEST_ADDRESS, &[10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        message.be16(DEST_PORT, 8080);
        message.u32(DEST_FORWARDING, 0x10 | 3);
        message.u32(DEST_WEIGHT, 0);
        message.u32(DEST_ACTIVE, 2);
        message.u32(DEST_INACTIVE, 3);
        message.end_nest(nest);
    });
    let found = decode::destination(&message(&written), WEB.address).unwrap();
    assert_eq!(found.destination.to_string(), "10.0.0.1:8080");
    assert_eq!((found.weight, found.active, found.inactive, found.masquerading), (0, 2, 3, false));
    assert_eq!(decode::server(&message(&written)), None);
}

#[test]
fn a_failure_in_words() {
    let mut batch = Batch::new();
    let index = batch.delete_service(six());
    let said = batch.explain(Failure { index, errno: libc::ESRCH });
    assert_eq!(said, "deleting virtual server [fd00:96::1]:443/sctp: there is no such virtual server");
}
