//! One random write after the other.

use conformance_support::paths;
use test_support::Dice;
use test_support::directory::NODE;

use crate::scene::Scene;
use crate::writer::{Spelling, Writer};
use crate::{node, services, slices};

pub(crate) struct Chaos<'a> {
    dice: Dice,
    writer: Writer<'a>,
}

impl<'a> Chaos<'a> {
    pub(crate) fn new(seed: u64, scene: &'a Scene) -> Chaos<'a> {
        Chaos { dice: Dice::new(seed), writer: Writer::new(scene.api()) }
    }

    pub(crate) fn step(&mut self) {
        let Chaos { dice, writer } = self;
        let spelling = if dice.chance(50) { Spelling::Json } else { Spelling::Protobuf };
        let number = dice.below(services::COUNT);
        let service = service_path(number);
        match dice.below(100) {
            0..30 => writer.put(&services::service(dice, number), spelling),
            30..42 => writer.patch(&service, &services::patch(dice)),
            42..50 => writer.patch_balancer(&service, &services::status(dice)),
            50..56 => {
                writer.delete(&service);
                if dice.chance(50) {
                    writer.put(&services::service(dice, number), spelling);
                }
            }
            56..84 => {
                let number = dice.below(slices::COUNT);
                writer.put(&slices::slice(dice, number), spelling);
            }
            84..91 => {
                let number = dice.below(slices::COUNT);
                let slice = slices::slice(dice, number);
                writer.delete(&paths::object(&slice));
            }
            91..94 => writer.patch(&node_path(), &node::patch(dice)),
            94..97 => writer.patch_status(&node_path(), &node::status(dice)),
            _ => {
                let at = dice.below(node::RANGES.len() as u32) as usize;
                let range = node::range(at, node::RANGES[at]);
                if dice.chance(50) {
                    writer.put(&range, spelling);
                } else {
                    writer.delete(&paths::object(&range));
                }
            }
        }
    }

    pub(crate) fn told(&self) -> String {
        self.writer.told()
    }

    pub(crate) fn forget(&mut self) {
        self.writer.forget();
    }

    pub(crate) fn tally(&self) -> String {
        self.writer.tally()
    }

    pub(crate) fn refusals(&self) -> String {
        self.writer.refusals()
    }

    pub(crate) fn accepted_percent(&self) -> usize {
        self.writer.accepted_percent()
    }
}

fn service_path(number: u32) -> String {
    let (namespace, name) = services::place(number);
    format!("/api/v1/namespaces/{namespace}/services/{name}")
}

fn node_path() -> String {
    format!("{}/{NODE}", paths::NODES)
}
