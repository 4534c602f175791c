//! The thesis's method for a closed network with an LPS station (its section 4.3), made to converge.
//!
//! The station becomes a delay with the length of Eq. 2.1 at the arrival rate that the network then yields. The thesis
//! iterates from a rate that may exceed saturation, where the equation is infinite or negative. Since the delay rises
//! with the rate and the rate falls with the delay, bisection always finds the one solution.

use super::Answer;
use super::approximation::of_fixed_point;
use super::flow::Flow;
use super::open::wait_and_slope;
use crate::system::Discipline;

const BISECTIONS: usize = 200;

pub(super) fn solve(flow: &Flow<'_>) -> Result<Answer, String> {
    let closed: Vec<_> = flow.closed().collect();
    let [(class, users, think_time)] = closed[..] else {
        return Err("it needs exactly one closed class".to_owned());
    };
    flow.stable()?;
    flow.without_speeds()?;
    flow.never_full()?;
    let is_lps =
        |station: &usize| matches!(flow.system.stations[*station].discipline, Discipline::Lps { .. });
    let limited: Vec<usize> = (0..flow.stations())
        .filter(is_lps)
        .filter(|&station| flow.classes[class].demands[station] > 0.0)
        .collect();
    let [station] = limited[..] else {
        return Err("it needs exactly one lps station on the closed class's route".to_owned());
    };
    if flow.system.stations[station].servers > 1 {
        return Err("Eq. 2.1 is for one server".to_owned());
    }
    let network = Network { flow, class, users, think_time, station };
    let saturation = (1.0 - flow.open_utilisations()[station]) / flow.classes[class].demands[station];
    let (mut low, mut high) = (0.0, saturation);
    for _ in 0..BISECTIONS {
        let middle = (low + high) / 2.0;
        match network.solve_at(middle) {
            Ok((throughput, _)) if throughput > middle => low = middle,
            _ => high = middle,
        }
    }
    let (_, residences) = network.solve_at(low)?;
    network.answer(low, residences)
}

struct Network<'f, 's> {
    flow: &'f Flow<'s>,
    class: usize,
    users: u32,
    think_time: f64,
    station: usize,
}

impl Network<'_, '_> {
    fn throughputs(&self, rate: f64) -> Vec<f64> {
        let mut throughputs = vec![0.0; self.flow.classes.len()];
        self.flow.open().for_each(|(class, rate)| throughputs[class] = rate);
        throughputs[self.class] = rate;
        throughputs
    }

    /// The throughput and the residence times of the closed class, supposing it arrives at the LPS station at `rate`.
    fn solve_at(&self, rate: f64) -> Result<(f64, Vec<f64>), String> {
        let (wait, slope) = wait_and_slope(self.flow, self.station, &self.throughputs(rate))?;
        let (flow, own) = (self.flow, &self.flow.classes[self.class]);
        let open = flow.open_utilisations();
        let mut queues = vec![0.0; flow.stations()];
        let (mut throughput, mut residences) = (0.0, vec![0.0; flow.stations()]);
        for population in 1..=self.users {
            for station in 0..flow.stations() {
                let (demand, servers) = (own.demands[station], flow.servers(station));
                residences[station] = if station == self.station {
                    own.visits[station] * wait + slope * demand
                } else if flow.is_delay(station) {
                    demand
                } else {
                    demand / servers * (1.0 + queues[station]) / (1.0 - open[station])
                        + demand * (servers - 1.0) / servers
                };
            }
            throughput = f64::from(population) / (self.think_time + residences.iter().sum::<f64>());
            for (station, queue) in queues.iter_mut().enumerate() {
                let delay = own.demands[station] * (1.0 - 1.0 / flow.servers(station));
                *queue = throughput * (residences[station] - delay);
            }
        }
        Ok((throughput, residences))
    }

    fn answer(&self, rate: f64, own: Vec<f64>) -> Result<Answer, String> {
        let (flow, throughputs) = (self.flow, self.throughputs(rate));
        let open = flow.open_utilisations();
        let mut residences = vec![vec![0.0; flow.stations()]; flow.classes.len()];
        for (class, _) in flow.open() {
            for station in 0..flow.stations() {
                let demand = flow.classes[class].demands[station];
                residences[class][station] = if station == self.station {
                    let (wait, slope) = wait_and_slope(flow, station, &throughputs)?;
                    flow.classes[class].visits[station] * wait + slope * demand
                } else if flow.is_delay(station) {
                    demand
                } else {
                    let servers = flow.servers(station);
                    let queue = rate
                        * (own[station] - flow.classes[self.class].demands[station] * (1.0 - 1.0 / servers));
                    demand / servers * (1.0 + queue) / (1.0 - open[station])
                        + demand * (servers - 1.0) / servers
                };
            }
        }
        residences[self.class] = own;
        Ok(flow.answer(&throughputs, &residences, &of_fixed_point(flow, self.station)))
    }
}
