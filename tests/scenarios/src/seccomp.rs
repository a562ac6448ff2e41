//! A seccomp profile as the kubelet takes it, turned into filters of the kernel for the calling thread and all that
//! it executes. Knows what our profile uses of the format, and refuses the rest.

use seccompiler::{BpfProgram, TargetArch, apply_filter, compile_from_json};
use serde_json::{Value, json};

const ALLOW: &str = "SCMP_ACT_ALLOW";
const ERRNO: &str = "SCMP_ACT_ERRNO";

/// From here on, what the profile does not allow is refused.
pub fn load(profile: &str) -> Result<(), String> {
    for filter in filters(profile)? {
        apply_filter(&filter).map_err(|error| format!("loading the seccomp profile: {error}"))?;
    }
    Ok(())
}

/// One for each error that a call is to fail with, then the one that lists what is allowed.
fn filters(profile: &str) -> Result<Vec<BpfProgram>, String> {
    let profile: Value = serde_json::from_str(profile).map_err(|error| error.to_string())?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    if text(&profile["defaultAction"]) != ERRNO {
        return Err(format!("the default action must be {ERRNO}"));
    }
    let errno = |value: &Value| value.as_u64().unwrap_or(1);
    let (mut filters, mut allowed) = (Vec::new(), Vec::new());
    for entry in profile["syscalls"].as_array().ok_or("no syscalls")? {
        let rules = rules(entry)?;
        if text(&entry["action"]) == ERRNO {
            filters.push(compile(
                rules.clone(),
                json!("allow"),
                json!({"errno": errno(&entry["errnoRet"])}),
            )?);
        } else if text(&entry["action"]) != ALLOW {
            return Err(format!("an action that is not known here: {}", entry["action"]));
        }
        // The strictest filter wins, so what another one refuses may be allowed here.
        allowed.extend(rules);
    }
    let default = json!({"errno": errno(&profile["defaultErrnoRet"])});
    filters.push(compile(allowed, default, json!("allow"))?);
    Ok(filters)
}

fn rules(entry: &Value) -> Result<Vec<Value>, String> {
    let conditions = match entry["args"].as_array() {
        None => Value::Null,
        Some(args) => args.iter().map(condition).collect::<Result<Vec<_>, _>>()?.into(),
    };
    let names = entry["names"].as_array().ok_or("an entry without names")?;
    let rules = names.iter().map(|name| json!({"syscall": name, "args": conditions}));
    Ok(rules.filter(exists).collect())
}

/// The list is that of x86-64. Other processors lack some of these calls; runtimes leave those out, too.
fn exists(rule: &Value) -> bool {
    std::env::consts::ARCH == "x86_64" || compile(vec![rule.clone()], json!("allow"), json!("log")).is_ok()
}

fn condition(argument: &Value) -> Result<Value, String> {
    match argument["op"].as_str() {
        Some("SCMP_CMP_EQ") => {
            Ok(json!({"index": argument["index"], "type": "qword", "op": "eq", "val": argument["value"]}))
        }
        Some("SCMP_CMP_MASKED_EQ") => {
            let operation = json!({"masked_eq": argument["value"]});
            let value = &argument["valueTwo"];
            Ok(json!({"index": argument["index"], "type": "qword", "op": operation, "val": value}))
        }
        other => Err(format!("a comparison that is not known here: {other:?}")),
    }
}

fn compile(rules: Vec<Value>, otherwise: Value, matching: Value) -> Result<BpfProgram, String> {
    let arch = TargetArch::try_from(std::env::consts::ARCH).map_err(|error| error.to_string())?;
    let filter = json!({"only": {"mismatch_action": otherwise, "match_action": matching, "filter": rules}});
    let mut compiled =
        compile_from_json(filter.to_string().as_bytes(), arch).map_err(|error| error.to_string())?;
    compiled.remove("only").ok_or_else(|| "nothing was compiled".into())
}
