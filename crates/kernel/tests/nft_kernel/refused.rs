//! What the kernel refuses to whom, tried in a second process that has fewer rights.

use std::process::Command;

use kernel::netns::{Namespace, enter_user_namespace, privileged_test};
use kernel::nft::*;

use crate::space::{batch, in_namespace};

const SECOND: &str = "NFT_TEST_SECOND_PROCESS";

fn is_second_process() -> bool {
    std::env::var_os(SECOND).is_some()
}

/// Run the named test again in a user namespace of its own, inside `namespace`, which belongs to the outer one.
fn again_with_fewer_rights(test: &str, namespace: &Namespace) {
    let mut command = Command::new(std::env::current_exe().expect("the test binary"));
    command.args([test, "--exact", "--nocapture"]).env(SECOND, "1");
    namespace.enter(&mut command).expect("to enter the namespace");
    enter_user_namespace(&mut command);
    match command.output() {
        Err(error) => println!("SKIPPED: user namespaces are not allowed here: {error}"),
        Ok(output) => {
            let text =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            assert!(output.status.success() && text[0].contains("1 passed"), "{}", text.concat());
        }
    }
}

#[test]
fn without_the_capability_nothing_works_and_it_says_why() {
    if !is_second_process() {
        return privileged_test(|| {
            in_namespace(|space| {
                let test = "refused::without_the_capability_nothing_works_and_it_says_why";
                again_with_fewer_rights(test, &space.namespace);
            })
        });
    }
    let mut connection = Connection::open().expect("a connection");
    let mut load = batch();
    load.add_table("");
    let error = connection.commit(&load).expect_err("EPERM");
    assert_eq!(error.kind, CommitErrorKind::NotPermitted);
    assert_eq!(
        error.to_string(),
        "the transaction on table \"ip test\": \
         this process lacks CAP_NET_ADMIN in the network namespace (EPERM)"
    );
    let error = connection.generation().expect_err("EPERM");
    assert!(error.to_string().ends_with("lacks CAP_NET_ADMIN in the network namespace (EPERM)"), "{error}");
    assert!(matches!(probe((5, 15)), Err(ProbeError::NotPermitted)));
}

#[test]
fn a_batch_beyond_the_send_buffer_says_so_and_the_next_works() {
    if !is_second_process() {
        return privileged_test(|| {
            in_namespace(|space| {
                let test = "refused::a_batch_beyond_the_send_buffer_says_so_and_the_next_works";
                again_with_fewer_rights(test, &space.namespace);
            })
        });
    }
    let Ok(limit) = std::fs::read_to_string("/proc/sys/net/core/wmem_max") else {
        println!("SKIPPED: net.core.wmem_max is not readable here");
        return;
    };
    let limit: usize = limit.trim().parse().expect("a number");
    in_namespace(|mut space| {
        let mut load = batch();
        load.add_table("");
        let mut number = 0u32;
        while load.len_bytes() <= 2 * limit {
            load.add_element("absent", &number.to_be_bytes(), ElementData::None, None);
            number += 1;
        }
        let error = space.connection.commit(&load).expect_err("EMSGSIZE");
        assert_eq!(error.kind, CommitErrorKind::TooLarge, "{error}");
        assert!(error.to_string().contains(&load.len_bytes().to_string()), "{error}");
        let mut small = batch();
        small.add_table("");
        space.commit(&small);
    })
}

#[test]
fn probing_finds_nf_tables_or_says_what_is_missing() {
    privileged_test(|| {
        in_namespace(|space| {
            space.namespace.run(|| {
                probe((3, 13)).expect("nf_tables");
                let error = probe((999, 0)).expect_err("no such kernel");
                assert!(error.to_string().ends_with("needs 999.0 or later"), "{error}");
            })
        })
    })
}
