//! Cases that need the control plane: run, or what kept it from them as their verdict.

use test_support::{Case, Report, Verdict};

use crate::kit::Kit;
use crate::release;

/// A case with what it needs, or with the reason why that is not there.
pub fn case<'a, T: Sync>(
    name: impl Into<String>,
    needed: &'a Result<T, Verdict>,
    run: impl Fn(&T) + Send + Sync + 'a,
) -> Case<'a> {
    let name = name.into();
    let case = name.clone();
    Case::new(name, move || match needed {
        Ok(needed) => match release::obstacle(&case) {
            Some(verdict) => verdict,
            None => {
                run(needed);
                Verdict::Passed
            }
        },
        Err(verdict) => verdict.clone(),
    })
}

/// Cases of a table, and how many of them may run side by side.
pub type Batch<'a, T> = (&'a [(&'static str, fn(&T))], usize);

/// Run the wanted cases, one batch after the other. All share what `prepare` makes, which is not made if no case is
/// wanted; it is handed back for what there is to say in the end.
pub fn cases<T: Sync>(
    report: &mut Report,
    batches: &[Batch<'_, T>],
    prepare: impl FnOnce(Kit) -> T,
) -> Result<T, Verdict> {
    let wanted = batches.iter().flat_map(|(table, _)| *table).any(|(name, _)| report.wants(name));
    let needed = if wanted { Kit::find_for(report).map(prepare) } else { Err(Verdict::Passed) };
    for (table, at_once) in batches {
        let cases: Vec<Case<'_>> = table.iter().map(|(name, run)| case(*name, &needed, *run)).collect();
        report.run(&cases, *at_once);
    }
    needed
}
