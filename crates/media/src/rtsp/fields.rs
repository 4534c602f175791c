//! The fields of a head that was found to be well formed.

/// Field lines, each with its line end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fields<'b>(pub(super) &'b str);

impl<'b> Fields<'b> {
    /// Names and values in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&'b str, &'b str)> + use<'b> {
        self.0.lines().filter_map(|line| line.split_once(':')).map(|(name, value)| (name, value.trim()))
    }

    /// The value of the first field called `name`, whatever its case.
    pub fn value(&self, name: &str) -> Option<&'b str> {
        self.all(name).next()
    }

    /// The values of every field called `name`, whatever its case.
    pub fn all<'n>(&self, name: &'n str) -> impl Iterator<Item = &'b str> + use<'b, 'n> {
        self.iter().filter(move |(there, _)| there.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}
