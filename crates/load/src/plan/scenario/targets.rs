//! Many targets of one request: a list of paths with weights, from which each request draws one.

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::plan::file_list::{self, FilelistError};

#[derive(Debug)]
pub struct Targets {
    paths: Vec<Box<str>>,
    /// The sums of the weights up to and with each.
    up_to: Vec<u64>,
}

impl Targets {
    /// Reads a list of lines as `/path?query weight`, below a path.
    pub fn parse(text: &str, below: &str) -> Result<Targets, FilelistError> {
        let (mut paths, mut up_to, mut sum) = (Vec::new(), Vec::new(), 0);
        for entry in file_list::parse(text)?.into_iter().filter(|entry| entry.weight > 0) {
            sum += entry.weight;
            paths.push(format!("{below}{}", entry.path).into());
            up_to.push(sum);
        }
        Ok(Targets { paths, up_to })
    }

    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> &str {
        let whole = self.up_to.last().copied().unwrap_or(1);
        let drawn = random.random_range(0..whole);
        &self.paths[self.up_to.partition_point(|up_to| *up_to <= drawn)]
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;

    use super::*;

    #[test]
    fn targets_are_drawn_by_their_weights() {
        let targets = Targets::parse("/a?x=1 3\n/never 0\n/b 1\n", "/base").unwrap();
        let random = &mut Xoshiro256PlusPlus::seed_from_u64(7);
        let drawn: Vec<&str> = (0..4000).map(|_| targets.draw(random)).collect();
        let first = drawn.iter().filter(|path| **path == "/base/a?x=1").count();
        assert!((2850..3150).contains(&first), "{first} of 4000 with three quarters of the weight");
        assert!(drawn.iter().all(|path| ["/base/a?x=1", "/base/b"].contains(path)));
        assert_eq!(Targets::parse("/a 0\n", "").unwrap_err(), FilelistError::Empty);
    }
}
