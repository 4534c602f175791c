//! Settings such as `station.web.servers=4`: change a system file and give the changed file.
//!
//! A setting names a key of the file (`station.line.rate`, `class.members.users`, `document.mu`), or one of the
//! parameters that are not keys: a station's `speed`, a factor on how fast all demands are served there; `speed`, that
//! factor for all stations but delays; a route's `probability`, to which the class's other routes are scaled;
//! `traffic`, a factor on all of the offered load; and `sizes`, a factor on all document sizes. Only the names and the
//! forms of settings are checked here; reading the changed file checks the rest.

use thiserror::Error;
use toml::{Table, Value};

use super::reader::{nearest, suggestion};
use super::unit::number_length;

/// The forms of a setting that name a place in the file.
const FORMS: &str = "station.NAME.KEY, class.NAME.KEY, class.NAME.routes.ROUTE.probability, document.KEY";
/// The first parts of every setting.
const BEGINNINGS: &[&str] = &["station", "class", "document", "traffic", "speed", "sizes"];

/// A setting that the file has no place for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct SettingError {
    /// The setting and the problem.
    pub message: String,
    /// What to write instead.
    pub cure: String,
}

/// Applies `NAME=VALUE` settings one after the other and writes the file that results, without comments.
///
/// # Errors
/// The first setting that has an unknown name or an impossible value; text that is not TOML.
pub fn with_settings<S: AsRef<str>>(text: &str, settings: &[S]) -> Result<String, SettingError> {
    let unwritten = |message: &str| SettingError {
        message: message.trim().to_owned(),
        cure: "docs/models.md has the schema of a system file".to_owned(),
    };
    let mut content: Table = text.parse().map_err(|error: toml::de::Error| unwritten(error.message()))?;
    for setting in settings {
        let setting = setting.as_ref();
        let (path, value) = setting.split_once('=').ok_or_else(|| not_a_setting(setting))?;
        let (path, value) = (path.trim(), value.trim());
        if value.is_empty() {
            return Err(not_a_setting(setting));
        }
        Place { path, value }.set(&mut content)?;
    }
    toml::to_string(&content).map_err(|error| unwritten(&error.to_string()))
}

fn not_a_setting(setting: &str) -> SettingError {
    SettingError {
        message: format!("'{setting}' is not a setting"),
        cure: "write NAME=VALUE, as in station.web.speed=2".to_owned(),
    }
}

/// The name of a setting with its value as written.
struct Place<'s> {
    path: &'s str,
    value: &'s str,
}

impl Place<'_> {
    fn set(&self, content: &mut Table) -> Result<(), SettingError> {
        let parts: Vec<&str> = self.path.split('.').collect();
        match parts[..] {
            ["traffic"] => scale_traffic(content, self.factor()?),
            ["speed"] => {
                let factor = self.factor()?;
                for name in names(content, "stations") {
                    let delays =
                        content["stations"][&name].get("discipline").and_then(Value::as_str) == Some("is");
                    if !delays {
                        speed_up(content, &name, factor);
                    }
                }
            }
            ["sizes"] => {
                let factor = self.factor()?;
                scale_document(content, factor);
                each_table(content, "classes", |class| scale_document(class, factor));
            }
            ["document", key] => {
                let document =
                    content.get_mut("document").and_then(Value::as_table_mut).ok_or_else(|| {
                        self.error(
                            "the file has no table [document]",
                            "add [document] to the file".to_owned(),
                        )
                    })?;
                document.insert(key.to_owned(), self.parsed());
            }
            ["station" | "stations", name, "speed"] if self.number().is_some() => {
                self.find(content, "stations", name)?;
                speed_up(content, name, self.factor()?);
            }
            ["class" | "classes", name, "route" | "routes", route, "probability"] => {
                let class = self.find(content, "classes", name)?;
                self.set_probability(class, route)?;
            }
            ["station" | "stations", name, key] => {
                self.set_key(self.find(content, "stations", name)?, key)?
            }
            ["class" | "classes", name, key] => self.set_key(self.find(content, "classes", name)?, key)?,
            _ => {
                let near = nearest(parts[0], BEGINNINGS).filter(|near| *near != parts[0]);
                let near = near.map_or_else(String::new, |near| format!("did you mean {near}…? "));
                let cure = format!("{near}write {FORMS}, speed, sizes or traffic");
                return Err(self.error("no such parameter", cure));
            }
        }
        Ok(())
    }

    fn error(&self, message: &str, cure: String) -> SettingError {
        SettingError { message: format!("{}: {message}", self.path), cure }
    }

    /// The value as TOML. Quantities and words need no quotes; `.5` is a number here.
    fn parsed(&self) -> Value {
        let parsed = format!("value = {}", self.value).parse::<Table>().ok();
        let value =
            parsed.and_then(|table| if table.len() == 1 { table.get("value").cloned() } else { None });
        value.unwrap_or_else(|| {
            let number =
                (number_length(self.value) == self.value.len()).then(|| self.value.parse().ok()).flatten();
            number.map_or_else(|| Value::String(self.value.to_owned()), Value::Float)
        })
    }

    fn number(&self) -> Option<f64> {
        let value = self.parsed();
        value.as_float().or(value.as_integer().map(|whole| whole as f64))
    }

    fn factor(&self) -> Result<f64, SettingError> {
        self.number().filter(|factor| factor.is_finite() && *factor > 0.0).ok_or_else(|| SettingError {
            message: format!("{}={}: a factor is a number above zero", self.path, self.value),
            cure: format!("for example {}=2", self.path),
        })
    }

    fn find<'c>(
        &self,
        content: &'c mut Table,
        kind: &str,
        name: &str,
    ) -> Result<&'c mut Table, SettingError> {
        let known = names(content, kind);
        let tables = content.get_mut(kind).and_then(Value::as_table_mut);
        tables.and_then(|tables| tables.get_mut(name)).and_then(Value::as_table_mut).ok_or_else(|| {
            let singular = if kind == "stations" { "station" } else { "class" };
            self.error(&format!("no {singular} is named {name}"), choice(name, &known))
        })
    }

    fn set_key(&self, table: &mut Table, key: &str) -> Result<(), SettingError> {
        // This parameter is not a key of the file, so the file's reader cannot suggest it.
        if !table.contains_key(key) && key != "speed" && nearest(key, &["speed"]).is_some() {
            return Err(self.error(&format!("a station has no {key}"), "did you mean speed?".to_owned()));
        }
        table.insert(key.to_owned(), self.parsed());
        Ok(())
    }

    fn set_probability(&self, class: &mut Table, name: &str) -> Result<(), SettingError> {
        let mut routes: Vec<&mut Table> = class
            .get_mut("routes")
            .and_then(Value::as_array_mut)
            .into_iter()
            .flatten()
            .filter_map(Value::as_table_mut)
            .collect();
        let known: Vec<String> = routes.iter().map(|route| name_of(route)).collect();
        let Some(place) = known.iter().position(|known| known == name) else {
            let cure = match known.len() {
                0 => "the class has one route: it needs no probability".to_owned(),
                _ => choice(name, &known),
            };
            return Err(self.error(&format!("no route is named {name}"), cure));
        };
        let value =
            self.number().filter(|value| (0.0..=1.0).contains(value)).ok_or_else(|| SettingError {
                message: format!("{}={}: a probability is from 0 to 1", self.path, self.value),
                cure: format!("for example {}=0.6", self.path),
            })?;
        let others = routes.len() - 1;
        let rest: f64 = routes
            .iter()
            .enumerate()
            .filter(|(index, _)| *index != place)
            .map(|(_, route)| probability(route))
            .sum();
        for (index, route) in routes.iter_mut().enumerate() {
            // Routes of probability 0 share the remainder equally, because there are no proportions to keep.
            let share = if rest > 0.0 { probability(route) / rest } else { 1.0 / others as f64 };
            let new = if index == place { value } else { (1.0 - value) * share };
            route.insert("probability".to_owned(), Value::Float(new));
        }
        Ok(())
    }
}

fn name_of(route: &Table) -> String {
    route.get("name").and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn probability(route: &Table) -> f64 {
    route.get("probability").and_then(number).unwrap_or(0.0)
}

/// A number with or without a decimal point: the file takes both.
fn number(value: &Value) -> Option<f64> {
    value.as_float().or(value.as_integer().map(|whole| whole as f64))
}

/// A suggestion in the words of a command line, which has no code marks.
fn choice(name: &str, known: &[String]) -> String {
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    suggestion(name, &known).replace('`', "")
}

fn names(content: &Table, kind: &str) -> Vec<String> {
    let tables = content.get(kind).and_then(Value::as_table);
    tables.into_iter().flat_map(|tables| tables.keys().cloned()).collect()
}

fn each_table(content: &mut Table, kind: &str, mut change: impl FnMut(&mut Table)) {
    let tables = content.get_mut(kind).and_then(Value::as_table_mut);
    for (_, table) in tables.into_iter().flatten() {
        if let Some(table) = table.as_table_mut() {
            change(table);
        }
    }
}

fn scale_traffic(content: &mut Table, factor: f64) {
    each_table(content, "classes", |class| {
        if let Some(rate) = class.get_mut("rate") {
            scale(rate, factor);
        } else if let Some(users) = class.get_mut("users")
            && let Some(present) = number(users)
        {
            *users = Value::Integer(((present * factor).round_ties_even() as i64).max(1));
        }
    });
}

fn scale_document(table: &mut Table, factor: f64) {
    if let Some(document) = table.get_mut("document") {
        scale_demand(document, factor);
    }
}

fn speed_up(content: &mut Table, name: &str, factor: f64) {
    if let Some(station) = content["stations"][name].as_table_mut() {
        if let Some(rate) = station.get_mut("rate") {
            scale(rate, factor);
        }
        if let Some(demand) = station.get_mut("demand") {
            scale_demand(demand, 1.0 / factor);
        }
    }
    each_table(content, "classes", |class| {
        if let Some(visits) = class.get_mut("route") {
            speed_up_visits(visits, name, factor);
        }
        for route in class.get_mut("routes").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(visits) = route.get_mut("visits") {
                speed_up_visits(visits, name, factor);
            }
        }
    });
}

fn speed_up_visits(visits: &mut Value, station: &str, factor: f64) {
    for visit in visits.as_array_mut().into_iter().flatten() {
        if visit.get("station").and_then(Value::as_str) == Some(station)
            && let Some(demand) = visit.get_mut("demand")
        {
            scale_demand(demand, 1.0 / factor);
        }
    }
}

/// A time or size, pieces by size, or a table with parts or a law.
fn scale_demand(demand: &mut Value, factor: f64) {
    match demand {
        Value::Array(pieces) => pieces.iter_mut().for_each(|piece| scale_demand(piece, factor)),
        Value::Table(table) => {
            for key in ["fixed", "per_byte", "shift"] {
                if let Some(time) = table.get_mut(key) {
                    scale(time, factor);
                }
            }
            if table.contains_key("law") {
                let present = table.get("scale").and_then(number).unwrap_or(1.0);
                table.insert("scale".to_owned(), Value::Float(present * factor));
            }
        }
        text => scale(text, factor),
    }
}

/// Scales a quantity in its unit.
fn scale(quantity: &mut Value, factor: f64) {
    let Value::String(text) = quantity else { return };
    let split = number_length(text.trim());
    let (digits, unit) = text.trim().split_at(split);
    if let Ok(number) = digits.parse::<f64>() {
        *text = format!("{:?}{}", number * factor, unit.trim());
    }
}

#[cfg(test)]
mod tests {
    use super::with_settings;
    use crate::system::Source;
    use crate::system_file::parse;

    const FILE: &str = r#"
name = "site"
[document]
law = "log-normal"
mean = "8KB"
scv = 2
[stations.web]
discipline = "fifo"
servers = 2
demand = "10ms"
[stations.line]
discipline = "ps"
rate = "1.5Mbit/s"
[classes.all]
rate = "5/s"
routes = [
    { name = "hit", probability = 0.4, visits = ["line"] },
    { name = "miss", probability = 0.6, visits = ["web", { station = "line", demand = { fixed = "1ms", per_byte = "4us/B" } }] },
]
[classes.members]
users = 3
think_time = "1s"
route = ["web"]
"#;

    fn check(settings: &[&str], expected: &str) {
        let text = with_settings(FILE, settings).expect("settings of this file");
        parse(&text).expect("a system file");
        let flat: String = text.split_whitespace().collect();
        let wanted: String = expected.split_whitespace().collect();
        assert!(flat.contains(&wanted), "{expected} is not in\n{text}");
    }

    #[test]
    fn each_kind_of_setting_changes_the_file() {
        check(&["station.web.servers=4"], "servers = 4");
        check(&["class.all.rate=500/s"], "rate = \"500/s\"");
        check(&["station.line.speed=2"], "rate = \"3.0Mbit/s\"");
        check(&["station.line.speed=2"], "fixed = \"0.5ms\"");
        check(&["speed=4"], "demand = \"2.5ms\"");
        check(&["traffic=2"], "rate = \"10.0/s\"");
        check(&["traffic=2"], "users = 6");
        check(&["sizes=3"], "scale = 3.0");
        check(&["class.all.routes.hit.probability=.7"], "probability = 0.7");
        check(&["document.scv=1", "document.scv=3"], "scv = 3");
    }

    #[test]
    fn traffic_scales_users_however_they_are_written() {
        for (written, expected) in [("1e3", "users = 1500"), ("1000.0", "users = 1500"), ("5", "users = 8")] {
            let file = FILE.replace("users = 3", &format!("users = {written}"));
            parse(&file).expect("a system file");
            let text = with_settings(&file, &["traffic=1.5"]).expect("a setting of this file");
            assert!(text.contains(expected), "{written}:\n{text}");
        }
    }

    #[test]
    fn other_routes_share_the_rest() {
        let text = with_settings(FILE, &["class.all.routes.hit.probability=0.75"]).expect("a setting");
        let system = parse(&text).expect("a system file");
        let shares: Vec<f64> = system.classes[0].routes.iter().map(|route| route.probability).collect();
        assert_eq!(shares, [0.75, 0.25]);
    }

    #[test]
    fn no_setting_keeps_the_system() {
        let text = with_settings::<&str>(FILE, &[]).expect("the same file");
        let (mut read, mut kept) = (parse(FILE).expect("a file"), parse(&text).expect("a file"));
        for system in [&mut read, &mut kept] {
            system.stations.iter_mut().for_each(|station| station.line = 0);
            system.classes.iter_mut().for_each(|class| class.line = 0);
        }
        assert_eq!(read, kept);
        assert_eq!(kept.classes[0].source, Source::Open { rate: 5.0 });
    }

    #[test]
    fn a_wrong_setting_says_what_to_write() {
        let refused = |setting: &str| with_settings(FILE, &[setting]).expect_err("a wrong setting");
        assert_eq!(refused("station.lin.rate=2Mbit/s").message, "station.lin.rate: no station is named lin");
        assert_eq!(refused("station.lin.rate=2Mbit/s").cure, "did you mean line?");
        assert_eq!(refused("station.web.sped=2").cure, "did you mean speed?");
        assert_eq!(refused("traffic=-1").message, "traffic=-1: a factor is a number above zero");
        assert_eq!(
            refused("class.all.routes.hit.probability=2").cure,
            "for example class.all.routes.hit.probability=0.6"
        );
        assert_eq!(
            refused("class.members.routes.hit.probability=1").cure,
            "the class has one route: it needs no probability"
        );
        assert_eq!(refused("speed").message, "'speed' is not a setting");
    }
}
