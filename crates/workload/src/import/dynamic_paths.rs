//! Decides from its response sizes whether a path is dynamic although its requests look static.
//!
//! A file has one size until it is replaced, which is rare; aborted responses are smaller and leave the file's size the
//! most frequent one. A dynamic page has many sizes, one after the other, none of them prevailing. If one client's
//! responses do not change while those of several clients differ, the page depends on the user.

use super::class::Class;

/// A path with fewer sizes is taken as a file in several encodings or versions.
pub const SIZES_MIN: u32 = 5;

/// A file is sent whole in at least this share of its requests, even if most clients abort.
const WHOLE_FRACTION_MIN: f64 = 0.1;

/// A page is dynamic if at least this share of responses differs in size from the previous client's response.
const CHANGED_FRACTION_MIN: f64 = 0.75;

/// With fewer responses that follow another client's, all responses count.
const CHANCES_MIN: u32 = 4;

/// With at least this many consecutive requests of a client, the path can be recognised as user-dependent.
const REPEATS_MIN: u32 = 3;

/// With a larger share of changed sizes, one client's own responses vary.
const REPEATS_CHANGED_FRACTION_MAX: f64 = 0.25;

/// Counts of a name's complete responses.
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    pub sized: u32,
    /// Responses whose size differs from the previous one.
    changes: u32,
    /// Responses to the same client as the previous one.
    repeats: u32,
    repeat_changes: u32,
    /// Requests right after the same client submitted a form and was redirected.
    after_post: u32,
    last_client: u32,
}

const NOBODY: u32 = u32::MAX;

/// The distinct sizes of a name's responses.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sizes {
    distinct: u32,
    largest_bytes: u64,
    /// The number of responses of the largest size, and the most of any other size.
    largest_count: u32,
    most_count: u32,
}

impl Behaviour {
    pub const NEW: Behaviour =
        Behaviour { sized: 0, changes: 0, repeats: 0, repeat_changes: 0, after_post: 0, last_client: NOBODY };

    /// Counts a response; `changed` means that its size differs from the previous one.
    pub fn answer(&mut self, client: u32, changed: bool, after_post: bool) {
        let is_repeat = client == self.last_client;
        self.sized += 1;
        self.changes += u32::from(changed);
        self.repeats += u32::from(is_repeat);
        self.repeat_changes += u32::from(is_repeat && changed);
        self.after_post += u32::from(after_post);
        self.last_client = client;
    }

    /// Returns true if its sizes need to be checked.
    pub fn may_be_dynamic(&self) -> bool {
        self.after_post > 0 || self.keeps_changing()
    }

    /// The class of its requests if it is dynamic, else `None`.
    pub fn class(&self, sizes: &Sizes) -> Option<Class> {
        if 2 * self.after_post > self.sized {
            return Some(Class::AfterPost);
        }
        if !self.keeps_changing() || sizes.distinct < SIZES_MIN || sizes.are_of_cut_off_answers(self.sized) {
            return None;
        }
        let changed = f64::from(self.repeat_changes) / f64::from(self.repeats.max(1));
        let depends = self.repeats >= REPEATS_MIN && changed <= REPEATS_CHANGED_FRACTION_MAX;
        Some(if depends { Class::UserDependent } else { Class::VaryingSize })
    }

    /// Returns true if successive clients hardly ever receive responses of the same size. Files are replaced less often
    /// than they are requested.
    fn keeps_changing(&self) -> bool {
        let others = self.sized.saturating_sub(self.repeats + 1);
        let changes = self.changes - self.repeat_changes;
        let (others, changes) =
            if others < CHANCES_MIN { (self.sized - 1, self.changes) } else { (others, changes) };
        self.sized >= SIZES_MIN && f64::from(changes) >= CHANGED_FRACTION_MIN * f64::from(others)
    }
}

impl Sizes {
    pub fn add(&mut self, size_bytes: u64, count: u32) {
        self.distinct += 1;
        if self.distinct == 1 || size_bytes > self.largest_bytes {
            self.most_count = self.most_count.max(self.largest_count);
            (self.largest_bytes, self.largest_count) = (size_bytes, count);
        } else {
            self.most_count = self.most_count.max(count);
        }
    }

    /// Returns true if the largest size prevails: it is the file's size, and smaller ones are aborted transfers.
    fn are_of_cut_off_answers(&self, answers: u32) -> bool {
        self.largest_count >= 2
            && self.largest_count >= self.most_count
            && f64::from(self.largest_count) >= WHOLE_FRACTION_MIN * f64::from(answers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Classifies responses given as (client, size); `after_post` marks each as following a form.
    fn class(answers: &[(u32, u64)], after_post: bool) -> Option<Class> {
        let mut behaviour = Behaviour::NEW;
        let mut before = None;
        let mut counts = std::collections::BTreeMap::new();
        for &(client, size_bytes) in answers {
            behaviour.answer(client, before.is_some_and(|before| before != size_bytes), after_post);
            before = Some(size_bytes);
            *counts.entry(size_bytes).or_insert(0) += 1;
        }
        let mut sizes = Sizes::default();
        counts.iter().for_each(|(&size_bytes, &count)| sizes.add(size_bytes, count));
        if behaviour.may_be_dynamic() { behaviour.class(&sizes) } else { None }
    }

    #[test]
    fn files_are_no_dynamic_pages() {
        assert_eq!(class(&[(1, 5); 40], false), None);
        let replaced: Vec<_> = (0..40).map(|number| (number % 3, u64::from(number / 6))).collect();
        assert_eq!(class(&replaced, false), None, "seven versions");
        let encodings: Vec<_> = (0..40).map(|number| (number, u64::from(number % 3))).collect();
        assert_eq!(class(&encodings, false), None, "plain, gzip and brotli");
        let often_replaced: Vec<_> = (0..40).map(|number| (number % 3, u64::from(number / 2))).collect();
        assert_eq!(class(&often_replaced, false), None, "every second request");
        let cut_off: Vec<_> =
            (0..40).map(|number| (number, if number % 4 == 0 { 1000 } else { u64::from(number) })).collect();
        assert_eq!(class(&cut_off, false), None, "one in four waited for it");
        assert_eq!(class(&[(1, 1), (2, 2), (3, 3), (4, 4)], false), None, "too few to tell");
    }

    #[test]
    fn pages_made_for_every_request_are_dynamic() {
        let made: Vec<_> = (0..40).map(|number| (number % 7, 1000 + u64::from(number * 13 % 31))).collect();
        assert_eq!(class(&made, false), Some(Class::VaryingSize));
        let again: Vec<_> = (0..40).map(|number| (number / 8, 1000 + u64::from(number))).collect();
        assert_eq!(
            class(&again, false),
            Some(Class::VaryingSize),
            "one client gets another answer each time"
        );
    }

    #[test]
    fn pages_of_users_are_told_from_pages_that_change() {
        let own: Vec<_> = (0..40).map(|number| (number / 2, 1000 + u64::from(number / 2))).collect();
        assert_eq!(class(&own, false), Some(Class::UserDependent));
    }

    #[test]
    fn what_follows_forms_is_their_result() {
        assert_eq!(class(&[(1, 5)], true), Some(Class::AfterPost));
        assert_eq!(class(&[(1, 5)], false), None);
    }
}
