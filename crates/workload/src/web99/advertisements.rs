//! Which advertisement a visitor is shown: the next behind the last one that was shown whose audience is the visitor's.
//!
//! The description has tables of visitors and of advertisements, made for a load. Here both follow from their numbers: an
//! application needs no tables beside it, and all that answer for one site agree.

use super::requests::Visitor;

/// Advertisements of a site.
pub const ADVERTISEMENTS: u32 = 360;
/// The minimum weight of a match between a visitor and an audience.
const WEIGHT_MIN: u32 = 3;
/// The groups that visitors and audiences belong to, as bits, and what each weighs where both are in one.
const GROUPS: [(u32, u32); 5] = [(GENDER, 1), (AGE, 2), (REGION, 2), (INTEREST, 3), (SECOND_INTEREST, 2)];
const GENDER: u32 = 0b11;
const AGE: u32 = 0b1111 << 2;
const REGION: u32 = 0b11_1111 << 6;
const INTEREST: u32 = 0x3ff << 12;
const SECOND_INTEREST: u32 = 0x3ff << 22;
/// One in so many has expired, and is shown as expired.
const EXPIRED_EACH: u32 = 50;

/// What a visitor is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shown {
    pub advertisement: u32,
    /// The weight of the match between audience and visitor; below the minimum if no advertisement matches.
    pub weight: u32,
    pub is_expired: bool,
}

impl Shown {
    /// The advertisement for a visitor.
    pub fn to(visitor: Visitor) -> Shown {
        let visitors = groups_of(visitor.user, 0x9e37_79b9);
        let first = visitor.last % ADVERTISEMENTS + 1;
        let shown = (first..first + ADVERTISEMENTS).map(|number| {
            let advertisement = number % ADVERTISEMENTS;
            let common = visitors & groups_of(advertisement, 0x85eb_ca6b);
            let weigh = |(group, weight): &(u32, u32)| if common & group == 0 { 0 } else { *weight };
            let is_expired = advertisement % EXPIRED_EACH == EXPIRED_EACH - 1;
            Shown { advertisement, weight: GROUPS.iter().map(weigh).sum(), is_expired }
        });
        let mut last = Shown { advertisement: first % ADVERTISEMENTS, weight: 0, is_expired: false };
        for each in shown {
            if each.weight >= WEIGHT_MIN {
                return each;
            }
            last = each;
        }
        last
    }
}

/// One bit in each group, by a multiplicative hash of the number.
fn groups_of(number: u32, factor: u32) -> u32 {
    let hash = (number + 1).wrapping_mul(factor);
    let hash = (hash ^ hash >> 15).wrapping_mul(0xc2b2_ae35);
    let mut rest = hash ^ hash >> 13;
    GROUPS.iter().fold(0, |bits, (group, _)| {
        let width = group.count_ones();
        let bit = 1 << (group.trailing_zeros() + rest % width);
        rest /= width;
        bits | bit
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn advertisements_rotate() {
        for user in [10_000, 10_001, 14_711] {
            let (mut visitor, mut seen) = (Visitor { user, last: 0 }, Vec::new());
            for _ in 0..ADVERTISEMENTS {
                let shown = Shown::to(visitor);
                assert!(shown.weight >= WEIGHT_MIN && shown.advertisement < ADVERTISEMENTS);
                assert_ne!(shown.advertisement, visitor.last, "another each time");
                visitor.last = shown.advertisement;
                seen.push(shown.advertisement);
            }
            let different: BTreeSet<u32> = seen.iter().copied().collect();
            // All that fit come before any comes again.
            let first: BTreeSet<u32> = seen[..different.len()].iter().copied().collect();
            assert_eq!(first, different);
            assert!((60..300).contains(&different.len()), "{}", different.len());
        }
    }

    #[test]
    fn visitors_differ() {
        let first: BTreeSet<u32> =
            (10_000..10_100).map(|user| Shown::to(Visitor { user, last: 7 }).advertisement).collect();
        assert!(first.len() > 3, "{first:?}");
        assert_eq!(
            Shown::to(Visitor { user: 1, last: u32::MAX }),
            Shown::to(Visitor { user: 1, last: u32::MAX % ADVERTISEMENTS })
        );
    }

    #[test]
    fn groups_are_apart() {
        let all = GROUPS.iter().fold(0, |all, (group, _)| {
            assert_eq!(all & group, 0);
            all | group
        });
        assert_eq!(all, u32::MAX);
    }
}
