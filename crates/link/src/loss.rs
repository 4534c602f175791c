//! Packet loss: independent, or in bursts (Gilbert).

use sojourn_queueing::random::Random;
use thiserror::Error;

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Loss {
    Never,
    /// Each packet with this probability, independently.
    Independent(f64),
    /// Every packet while the line is in the bad state, which it enters with the first probability per packet and
    /// leaves with the second (E. N. Gilbert, 1960, with no delivery in the bad state).
    Bursts {
        /// The probability, per packet, of changing to the bad state.
        worsening: f64,
        /// The probability, per packet, of changing back.
        recovery: f64,
    },
}

#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{0:?} is not a loss such as 0.1%, or bursts:0.1%,30% (the probabilities that a burst starts, and ends)"
)]
pub struct LossError(String);

impl Loss {
    /// Parses `0.1%`, or `bursts:0.1%,30%`.
    pub fn parse(text: &str) -> Result<Loss, LossError> {
        let refused = || LossError(text.to_owned());
        match text.strip_prefix("bursts:") {
            Some(pair) => {
                let (worsening, recovery) = pair.split_once(',').ok_or_else(refused)?;
                let worsening = probability(worsening).ok_or_else(refused)?;
                let recovery =
                    probability(recovery).filter(|&recovery| recovery > 0.0).ok_or_else(refused)?;
                Ok(Loss::Bursts { worsening, recovery })
            }
            None => match probability(text).ok_or_else(refused)? {
                0.0 => Ok(Loss::Never),
                p => Ok(Loss::Independent(p)),
            },
        }
    }

    /// The long-run share of lost packets.
    pub fn mean(&self) -> f64 {
        match *self {
            Loss::Never => 0.0,
            Loss::Independent(p) => p,
            Loss::Bursts { worsening, recovery } => worsening / (worsening + recovery),
        }
    }

    /// Returns true if the next packet is lost. `is_bad` is the state of the line, initially false.
    pub fn draw(&self, is_bad: &mut bool, random: &mut Random) -> bool {
        match *self {
            Loss::Never => false,
            Loss::Independent(p) => random.uniform() < p,
            Loss::Bursts { worsening, recovery } => {
                *is_bad = if *is_bad { random.uniform() >= recovery } else { random.uniform() < worsening };
                *is_bad
            }
        }
    }
}

fn probability(text: &str) -> Option<f64> {
    let percent: f64 = text.trim().strip_suffix('%')?.trim_end().parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKETS: usize = 400_000;

    fn lost(loss: Loss) -> Vec<bool> {
        let (mut random, mut is_bad) = (Random::new(3), false);
        (0..PACKETS).map(|_| loss.draw(&mut is_bad, &mut random)).collect()
    }

    #[test]
    fn texts() {
        let check = |text, expected| assert_eq!(Loss::parse(text), Ok(expected), "{text}");
        check("0%", Loss::Never);
        check("0.5%", Loss::Independent(0.005));
        check("bursts:1%,25%", Loss::Bursts { worsening: 0.01, recovery: 0.25 });
        for bad in ["", "0.1", "-1%", "101%", "nan%", "bursts:1%", "bursts:1%,0%", "bursts:1%,2%,3%"] {
            assert_eq!(Loss::parse(bad), Err(LossError(bad.into())), "{bad}");
        }
    }

    #[test]
    fn the_share_is_as_it_should_be() {
        for loss in [Loss::Independent(0.02), Loss::Bursts { worsening: 0.01, recovery: 0.25 }] {
            let share = lost(loss).iter().filter(|&&lost| lost).count() as f64 / PACKETS as f64;
            assert!((share / loss.mean() - 1.0).abs() < 0.06, "{loss:?}: {share}");
        }
    }

    #[test]
    fn bursts_are_as_long_as_recovery_says() {
        let lost = lost(Loss::Bursts { worsening: 0.01, recovery: 0.25 });
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        let mean = lost.iter().filter(|&&lost| lost).count() as f64 / bursts as f64;
        assert!((mean - 4.0).abs() < 0.2, "{mean}");
    }
}
