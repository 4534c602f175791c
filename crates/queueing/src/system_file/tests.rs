//! Reading system files, and the message for every kind of error.

use super::*;
use crate::distribution::RandomVariable;
use crate::system::{Discipline, Source, WhenFull};

const SITE: &str = r#"name = "public web site"
[document]
law = "log-normal"
mu = 7.811
sigma = 1.573
unit = "B"
[stations.web]
discipline = "lps"
r = 4
demand = { fixed = "21.55ms", per_byte = "0.4851us/B" }
[stations.line]
discipline = "ps"
rate = "1.5Mbit/s"
[stations.backbone]
discipline = "is"
demand = { law = "erlang", mean = "195ms", stages = 4 }
[classes.visitors]
rate = "5/s"
route = ["backbone", "web", "line"]
"#;

#[test]
fn reads_the_public_site() {
    let system = parse(SITE).unwrap();
    let names: Vec<&str> = system.stations.iter().map(|station| station.name.as_str()).collect();
    assert_eq!(names, ["web", "line", "backbone"]);
    assert_eq!(system.stations[0].discipline, Discipline::Lps { limit: 4 });
    assert_eq!(system.classes[0].source, Source::Open { rate: 5.0 });
    let demands = system.classes[0].demands(3);
    assert!((demands[0] - 0.025675).abs() < 1e-5, "{demands:?}");
    assert!((demands[1] - 8.0 * 8_502.9 / 1.5e6).abs() < 1e-5);
    assert!((demands[2] - 0.195).abs() < 1e-12);
}

#[test]
fn closed_classes_with_routes_of_their_own_demands() {
    let text = SITE.replace(
        "rate = \"5/s\"\nroute = [\"backbone\", \"web\", \"line\"]",
        r#"users = 20
think_time = { law = "exponential", mean = "7s" }
[[classes.visitors.routes]]
name = "hit"
probability = 0.51
visits = [{ station = "web", demand = [{ below = "20KB", fixed = "5ms" }, { fixed = "9ms" }] }]
[[classes.visitors.routes]]
name = "miss"
probability = 0.49
visits = ["web", "line"]"#,
    );
    let class = &parse(&text).unwrap().classes[0];
    assert!(matches!(&class.source, Source::Closed { users: 20, think_time } if think_time.mean() == 7.0));
    let small = class.document.as_ref().unwrap().cdf(20_000.0);
    let expected = 0.51 * (0.005 * small + 0.009 * (1.0 - small)) + 0.49 * 0.025675;
    assert!((class.demands(3)[0] - expected).abs() < 1e-5);
}

#[test]
fn errors_name_the_line_and_the_cure() {
    let check = |from: &str, to: &str, expected: &str| {
        assert!(SITE.contains(from), "{from}");
        let error = parse(&SITE.replace(from, to)).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{from} → {to}:\n  {error}\nis not\n  {expected}");
    };
    check(
        "\"backbone\", \"web\"",
        "\"backbone\", \"wbe\"",
        "line 19: unknown station `wbe`; did you mean `web`?",
    );
    check(
        "discipline = \"ps\"",
        "discipline = \"pss\"",
        "line 12: `discipline` cannot be \"pss\"; did you mean `ps`?",
    );
    check(
        "rate = \"1.5Mbit/s\"",
        "rate = 1.5",
        "line 13: `rate` needs a unit: write it as text, such as \"1.5Mbit/s\"",
    );
    check(
        "1.5Mbit/s",
        "1.5Mbps",
        "line 13: `rate`: \"Mbps\" is not a valid unit here; write bits as `Mbit/s` and bytes as `MB/s`",
    );
    check("1.5Mbit/s", "1.5", "line 13: `rate` needs a unit, such as");
    check("1.5Mbit/s", "-1Mbit/s", "line 13: `rate` must be non-negative and finite");
    check("1.5Mbit/s", "0bit/s", "line 13: `rate` must be above zero");
    check("r = 4", "limit = 4", "line 7: an `lps` station needs `r`");
    check("r = 4", "r = 0", "line 9: `r` must be a whole number from 1 to 1000000, not 0");
    check("r = 4", "r = 4\nservrs = 2", "line 10: unknown key `servrs`; did you mean `servers`?");
    check("sigma = 1.573", "sigma = nan", "line 5: `sigma` must be a finite number");
    check("sigma = 1.573", "sigma = 100", "line 2: the mean must be 0, or from 1e-3B to 1e15B");
    check(
        "sigma = 1.573",
        "sigma = 5.5",
        "line 2: the squared coefficient of variation must be at most 1e12, not ",
    );
    check(
        "rate = \"5/s\"",
        "rate = \"1e308/s\"",
        "line 18: `rate`, \"1e308/s\", must be 0, or from 1e-9/s to 1e12/s",
    );
    check(
        "rate = \"5/s\"",
        "users = 3\nthink_time = \"1e308s\"",
        "line 19: `think_time`, \"1e308s\", must be 0, or from 1e-15s to 1e7s",
    );
    check(
        "per_byte = \"0.4851us/B\"",
        "per_byte = \"1e99us/B\"",
        "line 10: `per_byte`, \"1e99us/B\", must be 0",
    );
    check("sigma = 1.573", "sigma = -1", "line 2: sigma must be non-negative and finite, not -1");
    check(
        "unit = \"B\"",
        "unit = \"b\"",
        "line 6: `unit`: \"b\" is not a valid unit here; did you mean `B`?",
    );
    check("stages = 4", "stages = 2.5", "line 16: `stages` must be a whole number");
    check("rate = \"5/s\"", "", "line 17: a class needs `rate` (open) or `users`");
    check("rate = \"5/s\"", "users = 3", "line 17: `think_time` is missing");
    check("rate = \"5/s\"", "rate = \"5/s", "line 18: ");
    check(
        "\"line\"]",
        "{ station = \"line\", holds = \"backbone\" }]",
        "line 19: `backbone` has no limited places",
    );
    check(
        "\"web\", \"line\"]",
        "{ station = \"line\", holds = \"web\" }]",
        "line 19: the visit before is not at `web`",
    );
    check(
        "\"line\"]",
        "{ station = \"line\", holds = [\"web\", \"web\"] }]",
        "line 19: `web` is held only once",
    );
    check(
        "\"line\"]",
        "{ station = \"web\", priority = 1 }]",
        "line 19: `priority` must be `true` or `false`",
    );
    check(
        "\"line\"]",
        "{ station = \"line\", priority = true }]",
        "line 19: no job waits at `line` (fifo or lps)",
    );
    check(
        "rate = \"5/s\"",
        "rate = \"nan/s\"",
        "line 18: `rate` must be a number with a unit such as \"40/s\"",
    );
    check(
        "rate = \"5/s\"",
        "rate = \"-5/s\"",
        "line 18: `rate` must be non-negative and finite, not \"-5/s\"",
    );
    check("rate = \"5/s\"", "rate = \"5ms\"", "line 18: `rate`: \"ms\" is not a valid unit here");
    check(
        "rate = \"5/s\"",
        "users = -3\nthink_time = \"1s\"",
        "line 18: `users` must be a whole number from 1 to 1000000, not -3",
    );
    check("rate = \"5/s\"", "users = 3\nthink_time = \"-1s\"", "line 19: `think_time` must be non-negative");
    check("rate = \"5/s\"", "users = 3\nthink_time = \"1e999s\"", "line 19: `think_time` must be finite");
    check("per_byte = \"0.4851us/B\"", "per_byte = \"-1us/B\"", "line 10: `per_byte` must be non-negative");
    check(
        "per_byte = \"0.4851us/B\"",
        "per_byte = \"1us\"",
        "line 10: `per_byte`: \"us\" is not a valid unit",
    );
    check("[classes.visitors]", "[clases.visitors]", "line 1: `classes` is missing; is `clases` meant?");
    check("mean = \"195ms\"", "mean = \"195KB\"", "line 16: `mean`: \"KB\" is not a valid unit here");
}

#[test]
fn a_later_piece_may_start_below_zero_where_its_demand_does_not() {
    let site = |fixed: &str| {
        let pieces = format!(
            r#"demand = [{{ below = "20KB", per_byte = "1ns/B" }}, {{ fixed = "{fixed}", per_byte = "3ns/B" }}]"#
        );
        SITE.replace("demand = { fixed = \"21.55ms\", per_byte = \"0.4851us/B\" }", &pieces)
    };
    let demand = &parse(&site("-40us")).unwrap().classes[0].routes[0].visits[1].demand;
    assert!((demand.of_size(30_000.0).unwrap() - 50e-6).abs() < 1e-12);
    let error = parse(&site("-70us")).unwrap_err().to_string();
    assert!(error.contains("the demand would be negative for documents of 20000 B"), "{error}");
}

#[test]
fn probabilities_must_sum_to_one() {
    let text = SITE.replace(
        "route = [\"backbone\", \"web\", \"line\"]",
        "routes = [{ name = \"a\", probability = 0.5, visits = [\"web\"] }]",
    );
    let error = parse(&text).unwrap_err().to_string();
    assert!(error.starts_with("line 19: the probabilities of the routes sum to 0.5, not to 1"), "{error}");
}

#[test]
fn demands_by_size_need_a_document_distribution() {
    let start = SITE.find("[document]").unwrap();
    let end = SITE.find("[stations.web]").unwrap();
    let error = parse(&format!("{}{}", &SITE[..start], &SITE[end..])).unwrap_err().to_string();
    assert!(error.contains("no distribution of sizes; add [document]"), "{error}");
}

#[test]
fn an_empty_file_says_what_is_missing() {
    assert_eq!(parse("").unwrap_err().to_string(), "line 1: `stations` is missing");
}

proptest::proptest! {
    /// A system file with random typing errors gives a system or an error with a line, never a panic.
    #[test]
    fn typing_errors_never_panic(at in 0..SITE.len(), cut in 0_usize..30, insert in "[ -~\n]{0,12}") {
        let end = (at + cut).min(SITE.len());
        let text = format!("{}{insert}{}", &SITE[..at], &SITE[end..]);
        if let Err(error) = parse(&text) {
            proptest::prop_assert!(error.line >= 1 && !error.message.is_empty());
        }
    }
}

#[test]
fn speeds_are_curves_tables_or_measured_rates() {
    let speed = |text: &str| {
        let file = SITE.replace("discipline = \"ps\"", &format!("discipline = \"ps\"\nspeed = {text}"));
        parse(&file)
            .map(|system| system.stations[1].speed.clone().unwrap())
            .map_err(|error| error.to_string())
    };
    assert_eq!(speed("{ alpha = 0.1, beta = 0.01 }").unwrap().at(1), 1.0);
    assert_eq!(speed("[1, 1.5, 1.2]").unwrap().at(3), 1.2);
    assert_eq!(speed("[\"40/s\", \"60/s\"]").unwrap().at(2), 1.5);
    let check = |text: &str, expected: &str| {
        let error = speed(text).unwrap_err();
        assert!(error.starts_with(expected), "{text}:\n  {error}\nis not\n  {expected}");
    };
    check("[1, \"60/s\"]", "line 13: `speed` mixes numbers and rates");
    check("[\"40/s\", \"60ms\"]", "line 13: `speed`: \"ms\" is not a valid unit here");
    check("[2, 3]", "line 13: `speed`: speeds are relative to one job alone: the first must be 1, not 2");
    check("[1, 0]", "line 13: `speed`: speed number 2 must be positive");
    check("[1, nan]", "line 13: `speed` must be a finite number");
    check("[]", "line 13: `speed`: a table of speeds has from 1 to");
    check("{ alpha = 1.5, beta = 0 }", "line 13: `speed`: alpha must be from 0 to 1, not 1.5");
    check("{ alpha = 0.1, beta = -1 }", "line 13: `speed`: beta must be non-negative and finite, not -1");
    check("{ alpha = 0.1, betta = 1 }", "line 13: `beta` is missing; is `betta` meant?");
    check("[1, 2]\nservers = 2", "line 14: `speed` already defines the speed");
    let delay = SITE.replace("discipline = \"is\"", "discipline = \"is\"\nspeed = [1, 2]");
    assert!(parse(&delay).unwrap_err().to_string().starts_with("line 16: `speed` belongs to `ps` and `lps`"));
}

#[test]
fn a_station_may_be_finite() {
    let station = |keys: &str| {
        let text = format!(
            "stations.web = {{ discipline = \"lps\", r = 4, demand = \"1ms\", {keys} }}\n\
             classes.visitors = {{ rate = \"5/s\", route = [\"web\"] }}"
        );
        parse(&text).map(|system| system.stations[0].capacity.clone())
    };
    let capacity = station("queue = 128").unwrap().unwrap();
    assert_eq!((capacity.jobs, capacity.when_full), (132, WhenFull::Refuse));
    assert_eq!(station("capacity = 4").unwrap().unwrap().jobs, 4);
    let retried = station("queue = 8, when_full = { retry = \"1s\", backoff = 2, retries = 6 }");
    let WhenFull::Retry(retry) = retried.unwrap().unwrap().when_full else { panic!("it retries") };
    assert_eq!((retry.after.mean(), retry.backoff, retry.retries_max), (1.0, 2.0, Some(6)));
    for (keys, message) in [
        ("capacity = 3", "a `capacity` of 3 would leave some of the 4 places in service empty forever"),
        ("capacity = 8, queue = 4", "give either `capacity` or `queue`, not both"),
        ("when_full = \"refuse\"", "`when_full` needs a `capacity` or a `queue`: without, it is never full"),
        ("queue = 4, when_full = \"refus\"", "`when_full` cannot be \"refus\"; did you mean `refuse`?"),
        ("queue = 4, when_full = { retry = \"0s\" }", "`retry` must take some time"),
        ("queue = 4, when_full = { retry = \"1s\", backoff = 0.5 }", "`backoff` must be at least 1, not 0.5"),
        (
            "queue = 4, when_full = \"block\"",
            "`web` blocks when it is full, but nothing comes before it on this route: let it refuse or retry",
        ),
    ] {
        assert_eq!(station(keys).unwrap_err().message, message, "{keys}");
    }
}

#[test]
fn stations_that_could_wait_for_each_other_are_refused() {
    let text = |route: &str, users: &str| {
        format!(
            "stations.a = {{ discipline = \"fifo\", demand = \"1ms\", queue = 1, when_full = \"block\" }}\n\
             stations.b = {{ discipline = \"fifo\", demand = \"1ms\", queue = 1, when_full = \"block\" }}\n\
             stations.first = {{ discipline = \"fifo\", demand = \"1ms\" }}\n\
             stations.second = {{ discipline = \"fifo\", demand = \"1ms\" }}\n\
             stations.line = {{ discipline = \"ps\", demand = \"1ms\" }}\n\
             stations.door = {{ discipline = \"ps\", demand = \"1ms\", capacity = 9 }}\n\
             classes.visitors = {{ {users}, route = {route} }}"
        )
    };
    let refusal = |route: &str, users: &str| parse(&text(route, users)).unwrap_err().message;
    assert_eq!(
        refusal(r#"["first", "a", "b", "a"]"#, "rate = \"1/s\""),
        "a job at `a` could wait for itself through other stations, forever"
    );
    let each_holds =
        r#"["first", { station = "second", holds = "first" }, { station = "first", holds = "second" }]"#;
    assert_eq!(
        refusal(each_holds, "rate = \"1/s\""),
        "a job at `first` could wait for itself through other stations, forever"
    );
    assert!(parse(&text(r#"["first", { station = "second", holds = "first" }]"#, "rate = \"1/s\"")).is_ok());
    let both_hold = r#"["first", { station = "second", holds = "first" },
        { station = "line", holds = ["first", "second"] }, { station = "first", holds = ["second"] }]"#;
    assert_eq!(
        refusal(both_hold, "rate = \"1/s\""),
        "a job at `first` could wait for itself through other stations, forever"
    );
    assert!(refusal(r#"["line", "a"]"#, "rate = \"1/s\"").contains("it would block nothing"));
    assert!(refusal(r#"["door"]"#, "users = 4, think_time = \"0s\"").contains("retry immediately"));
    assert!(parse(&text(r#"["first", "a", "b", "line"]"#, "rate = \"1/s\"")).is_ok());
}

fn key(path: &str) -> Vec<Step> {
    let step = |part: &str| part.parse().map_or_else(|_| Step::Key(part.to_owned()), Step::Place);
    path.split('.').map(step).collect()
}

fn set(path: &str, value: &str) -> Edit {
    Edit::Set { path: key(path), value: value.to_owned() }
}

fn insert(path: &str, value: &str) -> Edit {
    Edit::Insert { path: key(path), value: value.to_owned() }
}

const COMMENTED: &str = r#"# What it is for.
name = "shop" # short

# The application.
[stations.web]
servers = 2   # as measured
discipline = "ps"
demand = "10ms"

[stations.database]
discipline = "fifo"
demand = { law = "exponential", mean = "4ms" }

# Those who buy.
[classes.buyers]
rate = "20/s"
route = [
    "web", # first
    "database",
]
"#;

#[test]
fn without_edits_every_byte_stays() {
    assert_eq!(edited(COMMENTED, &[]).unwrap(), COMMENTED);
    assert_eq!(edited(SITE, &[]).unwrap(), SITE);
}

#[test]
fn an_edit_keeps_comments_order_and_layout() {
    let check = |edit: Edit, from: &str, to: &str| {
        assert!(COMMENTED.contains(from), "{from}");
        assert_eq!(edited(COMMENTED, &[edit]).unwrap(), COMMENTED.replace(from, to));
    };
    check(set("stations.web.servers", "4"), "servers = 2   # as", "servers = 4   # as");
    check(set("stations.database.demand.mean", "\"5ms\""), "mean = \"4ms\"", "mean = \"5ms\"");
    check(set("classes.buyers.route.0", "\"app\""), "\"web\", # first", "\"app\", # first");
    check(set("stations.web.capacity", "9"), "demand = \"10ms\"\n", "demand = \"10ms\"\ncapacity = 9\n");
    check(set("stations.database.demand.scale", "2"), "mean = \"4ms\" }", "mean = \"4ms\", scale = 2 }");
    check(Edit::Remove { path: key("stations.web.servers") }, "servers = 2   # as measured\n", "");
    let rename = Edit::Rename { path: key("stations.web"), name: "front".to_owned() };
    check(rename, "[stations.web]", "[stations.front]");
    let last = insert("classes.buyers.route.2", "\"web\"");
    check(last, "    \"database\",\n", "    \"database\",\n    \"web\",\n");
}

#[test]
fn tables_and_lists_are_made_where_they_belong() {
    let edits = [
        set("stations.cache.discipline", "\"is\""),
        set("stations.cache.demand", "\"1ms\""),
        Edit::Remove { path: key("classes.buyers.route") },
        insert("classes.buyers.routes.0", r#"{ name = "hit", probability = 0.5, visits = ["cache"] }"#),
        insert("classes.buyers.routes.1", r#"{ name = "miss", probability = 0.5, visits = ["web"] }"#),
        insert("classes.buyers.routes.1.visits.1", r#""database""#),
        insert("classes.buyers.routes.1", r#"{ name = "none", probability = 0, visits = ["web"] }"#),
        set("drawing.cache", "[10, 20]"),
    ];
    let text = edited(COMMENTED, &edits).unwrap();
    let system = parse(&text).unwrap();
    let names: Vec<&str> = system.classes[0].routes.iter().map(|route| route.name.as_str()).collect();
    assert_eq!(names, ["hit", "none", "miss"]);
    assert_eq!(system.classes[0].routes[2].visits.len(), 2);
    let place = |part: &str| text.find(part).unwrap_or_else(|| panic!("no {part} in {text}"));
    assert!(place("[stations.cache]") < place("# Those who buy."));
    assert!(place("[[classes.buyers.routes]]") > place("[classes.buyers]"));
    assert!(text.contains("visits = [\"web\", \"database\"]"), "{text}");
}

#[test]
fn an_edit_of_what_is_not_there_is_refused() {
    let check = |edit: Edit, expected: &str| {
        let refusal = edited(COMMENTED, &[edit]).unwrap_err().to_string();
        assert!(refusal.contains(expected), "{refusal}");
    };
    check(set("classes.buyers.route.7", "1"), "no place `classes.buyers.route.7`");
    check(set("name.x", "1"), "no place `name.x`");
    check(set("name", "a b"), "");
    let taken = Edit::Rename { path: key("stations.web"), name: "database".to_owned() };
    check(taken, "already something named `database`");
    assert!(edited("a = ", &[]).is_err());
}

#[test]
fn an_outline_says_what_an_error_is_about() {
    let check = |from: &str, to: &str, path: &str| {
        let text = COMMENTED.replace(from, to);
        let error = outline(&text).error.unwrap_or_else(|| panic!("no error in {text}"));
        assert_eq!(error.path, key(path), "{}", error.message);
    };
    check("servers = 2", "servers = 0", "stations.web.servers");
    check("discipline = \"ps\"", "discipline = \"lps\"", "stations.web");
    check("discipline = \"ps\"\n", "", "stations.web");
    check("\"database\",", "\"data\",", "classes.buyers.route.1");
    check("rate = \"20/s\"", "rate = 20", "classes.buyers.rate");
    assert!(outline(COMMENTED).error.is_none());
    assert_eq!(outline("").error.unwrap().path, []);
    assert!(outline("[").content.is_empty());
}

#[test]
fn a_drawing_has_two_numbers_for_each_name() {
    assert!(parse(&format!("{COMMENTED}[drawing]\nweb = [10, 20.5]\nnobody = [0, -1]\n")).is_ok());
    for wrong in ["web = [10]", "web = 3", "web = [\"a\", 1]"] {
        let error = parse(&format!("{COMMENTED}[drawing]\n{wrong}\n")).unwrap_err();
        assert_eq!(error.line, 22, "{error}");
    }
}
