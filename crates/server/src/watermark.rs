//! Watermarks: a level counts as high from one mark on, until it has fallen below a lower one.

/// A level with its two marks.
#[derive(Debug)]
pub struct Watermark {
    low: usize,
    high: usize,
    is_high: bool,
}

impl Watermark {
    /// High from the level `high` on, until it is below `low`.
    pub fn new(low: usize, high: usize) -> Watermark {
        debug_assert!(low <= high);
        Watermark { low, high, is_high: false }
    }

    /// Records the current level; returns true if it counts as high.
    pub fn update(&mut self, level: usize) -> bool {
        self.is_high = level >= if self.is_high { self.low } else { self.high };
        self.is_high
    }

    pub fn is_high(&self) -> bool {
        self.is_high
    }

    /// How far `level` is above the lower mark.
    pub fn surplus(&self, level: usize) -> usize {
        if self.is_high { level.saturating_sub(self.low) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_stays_high_until_it_is_low() {
        let mut mark = Watermark::new(5, 8);
        for (level, is_high, surplus) in [
            (0, false, 0),
            (7, false, 0),
            (8, true, 3),
            (6, true, 1),
            (5, true, 0),
            (4, false, 0),
            (7, false, 0),
        ] {
            assert_eq!((mark.update(level), mark.surplus(level)), (is_high, surplus), "{level}");
        }
    }
}
