//! Why a value is refused, and in a list which of its items.

/// Every problem with one value. An item of a list is named by its index, as the apiserver names fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal(Vec<(Option<usize>, String)>);

impl From<String> for Refusal {
    fn from(problem: String) -> Refusal {
        Refusal(vec![(None, problem)])
    }
}

impl Refusal {
    /// One line each, for a setting of this name.
    pub(crate) fn lines(&self, name: &str) -> impl Iterator<Item = String> {
        self.0.iter().map(move |(index, problem)| match index {
            Some(index) => format!("{name}[{index}]: {problem}"),
            None => format!("{name}: {problem}"),
        })
    }
}

/// Read every item of a list, the first of which has the index `first`; all that cannot be read are refused together.
pub(super) fn each<T, U>(
    first: usize,
    items: impl IntoIterator<Item = T>,
    mut read: impl FnMut(T) -> Result<U, String>,
) -> Result<Vec<U>, Refusal> {
    let (mut values, mut refusal) = (Vec::new(), Refusal::default());
    for (position, item) in items.into_iter().enumerate() {
        match read(item) {
            Ok(value) => values.push(value),
            Err(problem) => refusal.0.push((Some(first.saturating_add(position)), problem)),
        }
    }
    if refusal.0.is_empty() { Ok(values) } else { Err(refusal) }
}
