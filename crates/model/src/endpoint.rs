//! Endpoints as a service sees them: slices of addresses with conditions, node and hints.
//!
//! These are views: the cluster state keeps endpoints packed and lends them in this shape.

use std::net::IpAddr;

use crate::Protocol;

/// One EndpointSlice of a service. Every endpoint offers every port.
#[derive(Clone, Debug)]
pub struct EndpointSlice<'a> {
    pub ports: &'a [SlicePort],
    pub endpoints: Vec<Endpoint<'a>>,
}

/// A port of a slice; it serves the service port of the same name and protocol.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SlicePort {
    pub name: Box<str>,
    pub protocol: Protocol,
    pub port: u16,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint<'a> {
    pub ip: IpAddr,
    pub ready: bool,
    pub serving: bool,
    pub terminating: bool,
    pub node: Option<&'a str>,
    pub hints: Option<&'a Hints>,
}

/// For whom the control plane means an endpoint. An empty list says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    pub zones: Box<[Box<str>]>,
    pub nodes: Box<[Box<str>]>,
}
