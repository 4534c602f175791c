//! Requests in JSON and their responses: `{"ok": …}`, or `{"error": …}` with the reason in words.

use serde::{Deserialize, Serialize};
use sojourn_queueing::simulator::{self, Plan, Target};
use sojourn_queueing::solver;
use sojourn_queueing::system_file::{self, Edit};

/// The most systems that one request may solve.
const VARIANTS_MAX: usize = 1_000;

/// What can be asked. `settings` are as in `--set`, and every `system` is the text of a system file.
#[derive(Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
enum Request {
    /// Solves the system once for each list of settings.
    Predict {
        system: String,
        variants: Vec<Vec<String>>,
        #[serde(default)]
        percentiles: bool,
    },
    /// Simulates until the half-widths of the targets are below `half_width`.
    Simulate {
        system: String,
        #[serde(default)]
        settings: Vec<String>,
        seed: u64,
        half_width: f64,
        /// Without it, the default of a simulation.
        jobs_min: Option<u64>,
        jobs_max: u64,
        targets: Vec<String>,
    },
    /// Writes the system file with the settings.
    Write {
        system: String,
        #[serde(default)]
        settings: Vec<String>,
    },
    /// What a system file states, which may be incomplete, and the first error in it.
    Outline { system: String },
    /// Makes edits and keeps the rest of the text.
    Edit { system: String, edits: Vec<Edit> },
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum Response<T> {
    Ok(T),
    Error(String),
}

/// The response to a request; `should_continue` hears the number of simulated jobs and can stop.
pub fn answer(request: &[u8], should_continue: &mut dyn FnMut(u64) -> bool) -> String {
    match serde_json::from_slice(request) {
        Err(error) => respond(Err::<(), _>(format!("not a request: {error}"))),
        Ok(Request::Predict { system, variants, percentiles }) => {
            respond(predict(&system, &variants, percentiles))
        }
        Ok(Request::Simulate { system, settings, seed, half_width, jobs_min, jobs_max, targets }) => {
            let plan = plan(seed, half_width, (jobs_min, jobs_max), &targets);
            respond(plan.and_then(|plan| simulate(&system, &settings, &plan, should_continue)))
        }
        Ok(Request::Write { system, settings }) => respond(written(&system, &settings)),
        Ok(Request::Outline { system }) => respond(Ok(system_file::outline(&system))),
        Ok(Request::Edit { system, edits }) => {
            respond(system_file::edited(&system, &edits).map_err(|error| error.to_string()))
        }
    }
}

fn respond<T: Serialize>(result: Result<T, String>) -> String {
    let response = match result {
        Ok(value) => Response::Ok(value),
        Err(reason) => Response::Error(reason),
    };
    serde_json::to_string(&response).unwrap_or_else(|error| format!(r#"{{"error":"{error}"}}"#))
}

fn predict(
    system: &str,
    variants: &[Vec<String>],
    percentiles: bool,
) -> Result<Vec<Response<solver::Prediction>>, String> {
    if variants.len() > VARIANTS_MAX {
        return Err(format!("a request may have {VARIANTS_MAX} variants, this has {}", variants.len()));
    }
    let solve = if percentiles { solver::predict } else { solver::predict_means };
    let variant = |settings: &Vec<String>| match read(system, settings) {
        Ok(system) => Response::Ok(solve(&system)),
        Err(reason) => Response::Error(reason),
    };
    Ok(variants.iter().map(variant).collect())
}

fn simulate(
    system: &str,
    settings: &[String],
    plan: &Plan,
    should_continue: &mut dyn FnMut(u64) -> bool,
) -> Result<simulator::SystemResult, String> {
    let system = read(system, settings)?;
    let result = simulator::simulate_system(&system, plan, &[], &mut |now| should_continue(now.jobs));
    result.map_err(|error| error.to_string())
}

fn plan(
    seed: u64,
    half_width: f64,
    (jobs_min, jobs_max): (Option<u64>, u64),
    targets: &[String],
) -> Result<Plan, String> {
    let targets: Option<Vec<Target>> = targets.iter().map(|name| Target::of(name)).collect();
    let targets = targets.ok_or("a target is mean, p50, p90, p95, p99 or p999")?;
    // A page's memory has one thread, so there is one replication.
    let jobs_min = jobs_min.unwrap_or(Plan::default().jobs_min);
    Ok(Plan { relative_half_width: half_width, targets, jobs_min, jobs_max, seed, ..Plan::default() })
}

fn read(system: &str, settings: &[String]) -> Result<sojourn_queueing::system::System, String> {
    // A file without settings keeps its lines, which reasons name.
    let changed = if settings.is_empty() { None } else { Some(written(system, settings)?) };
    system_file::parse(changed.as_deref().unwrap_or(system)).map_err(|error| error.message)
}

fn written(system: &str, settings: &[String]) -> Result<String, String> {
    system_file::with_settings(system, settings).map_err(|error| format!("{}; {}", error.message, error.cure))
}

#[cfg(test)]
mod tests {
    use super::answer;

    const SYSTEM: &str = "[stations.web]\\ndiscipline = \\\"ps\\\"\\ndemand = \\\"100ms\\\"\\n\
                          [classes.all]\\nrate = \\\"5/s\\\"\\nroute = [\\\"web\\\"]\\n";

    fn asked(rest: &str) -> serde_json::Value {
        let text = answer(format!("{{\"system\": \"{SYSTEM}\", {rest}}}").as_bytes(), &mut |_| true);
        serde_json::from_str(&text).expect("JSON")
    }

    #[test]
    fn a_prediction_has_each_variant() {
        let response = asked(r#""do": "predict", "variants": [[], ["traffic=1.6"], ["stations.web=2"]]"#);
        let mean = |index: usize| {
            let answer = &response["ok"][index]["ok"]["solvers"]["open"]["answer"];
            answer["classes"]["all"]["response_time_seconds"]["mean"].as_f64().expect("a mean")
        };
        // M/M/1 and M/G/1-PS: 1 / (1/S − λ).
        assert!((mean(0) - 0.2).abs() < 1e-9);
        assert!((mean(1) - 0.5).abs() < 1e-9);
        let error = response["ok"][2]["error"].as_str().expect("an error");
        assert!(error.contains("no such parameter"), "{error}");
    }

    #[test]
    fn a_simulation_has_an_interval() {
        let response = asked(
            r#""do": "simulate", "seed": 1, "half_width": 0.05, "jobs_max": 1000000, "targets": ["mean"]"#,
        );
        let time = &response["ok"]["response_time_seconds"];
        let (mean, half_width) = (&time["mean"], &time["mean_half_width"]);
        let (mean, half_width) = (mean.as_f64().expect("a mean"), half_width.as_f64().expect("an interval"));
        assert!((mean - 0.2).abs() < 2.0 * half_width && half_width < 0.05 * mean);
    }

    #[test]
    fn an_edit_keeps_the_rest_and_an_outline_says_where_the_error_is() {
        let response = asked(
            r#""do": "edit", "edits": [{"do": "set", "path": ["stations", "web", "servers"], "value": "0"}]"#,
        );
        let text = response["ok"].as_str().expect("a text");
        assert!(text.contains("demand = \"100ms\"\nservers = 0\n"), "{text}");
        let request = serde_json::json!({"do": "outline", "system": text}).to_string();
        let answer = answer(request.as_bytes(), &mut |_| true);
        let outline: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        assert_eq!(outline["ok"]["content"]["stations"]["web"]["servers"], 0);
        assert_eq!(outline["ok"]["error"]["path"], serde_json::json!(["stations", "web", "servers"]));
        assert_eq!(outline["ok"]["error"]["line"], 4);
    }

    #[test]
    fn what_is_not_a_request_is_refused() {
        assert!(answer(b"[", &mut |_| true).contains("not a request"));
        let response =
            asked(r#""do": "simulate", "seed": 1, "half_width": 0.05, "jobs_max": 1, "targets": ["p42"]"#);
        assert!(response["error"].as_str().expect("an error").contains("a target is"));
    }
}
