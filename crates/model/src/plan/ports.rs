//! The ports of a plan. Plans on the way from one to another share the ports in which they do not differ: to copy a plan
//! of 20,000 ports, or to compare it with such a copy, does not look into them.

use std::ops::Deref;
use std::sync::Arc;

use super::PortPlan;

/// Sorted by name and protocol.
#[derive(Clone)]
pub struct Ports(Kept);

/// Nearly every service has one port, which then needs no list.
#[derive(Clone)]
enum Kept {
    One(Arc<PortPlan>),
    Many(Box<[Arc<PortPlan>]>),
}

impl Ports {
    /// To change some: `change` copies only those that it changes, with [`Arc::make_mut`].
    pub fn for_each_mut(&mut self, change: impl FnMut(&mut Arc<PortPlan>)) {
        match &mut self.0 {
            Kept::One(port) => std::slice::from_mut(port),
            Kept::Many(ports) => ports,
        }
        .iter_mut()
        .for_each(change);
    }
}

impl Deref for Ports {
    type Target = [Arc<PortPlan>];

    fn deref(&self) -> &[Arc<PortPlan>] {
        match &self.0 {
            Kept::One(port) => std::slice::from_ref(port),
            Kept::Many(ports) => ports,
        }
    }
}

impl Default for Ports {
    fn default() -> Ports {
        Ports(Kept::Many(Box::default()))
    }
}

impl From<Vec<Arc<PortPlan>>> for Ports {
    fn from(ports: Vec<Arc<PortPlan>>) -> Ports {
        Ports(match <[Arc<PortPlan>; 1]>::try_from(ports) {
            Ok([port]) => Kept::One(port),
            Err(ports) => Kept::Many(ports.into()),
        })
    }
}

impl FromIterator<PortPlan> for Ports {
    fn from_iter<I: IntoIterator<Item = PortPlan>>(ports: I) -> Ports {
        ports.into_iter().map(Arc::new).collect::<Vec<_>>().into()
    }
}

impl<'a> IntoIterator for &'a Ports {
    type Item = &'a Arc<PortPlan>;
    type IntoIter = std::slice::Iter<'a, Arc<PortPlan>>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl PartialEq for Ports {
    fn eq(&self, other: &Ports) -> bool {
        **self == **other
    }
}

impl Eq for Ports {}

impl std::fmt::Debug for Ports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_port_costs_no_list() {
        assert_eq!(size_of::<Ports>(), size_of::<Box<[u8]>>());
    }
}
