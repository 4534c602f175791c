//! Edits of a system file that keep all the rest of its text: comments, order and layout.
//!
//! An edit names a place in the file by its path and knows nothing of systems; reading the result checks it.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, TableLike, Value};

/// The most steps of a path: `classes.NAME.routes[1].visits[2].demand` has seven, mixtures may nest below.
const STEPS_MAX: usize = 32;

/// A step of a path: into a list by its place from 0, or into a table by its key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Step {
    Place(usize),
    Key(String),
}

/// A change of one place. Every `value` is TOML, as behind the sign of equality.
#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Edit {
    /// Writes a value, in the place of the one there, if any; tables on the way are made.
    Set { path: Vec<Step>, value: String },
    /// Adds an item to a list before the place where the path ends; a list that is missing is made.
    Insert { path: Vec<Step>, value: String },
    /// Removes what is there, if anything.
    Remove { path: Vec<Step> },
    /// Gives a key another name.
    Rename { path: Vec<Step>, name: String },
}

/// An edit that the file has no place for.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct EditError(String);

/// Makes the edits one after the other and returns the text that results.
///
/// # Errors
/// The text or a value is not TOML, a path leads nowhere, or a new name is taken.
pub fn edited(text: &str, edits: &[Edit]) -> Result<String, EditError> {
    let mut document: DocumentMut =
        text.parse().map_err(|error: toml_edit::TomlError| refused(error.message()))?;
    for edit in edits {
        match edit {
            Edit::Set { path, value } => set(&mut document, path, parsed(value)?)?,
            Edit::Insert { path, value } => insert(&mut document, path, parsed(value)?)?,
            Edit::Remove { path } => remove(&mut document, path)?,
            Edit::Rename { path, name } => rename(&mut document, path, name)?,
        }
    }
    Ok(document.to_string())
}

fn refused(message: &str) -> EditError {
    EditError(message.trim().to_owned())
}

fn parsed(value: &str) -> Result<Value, EditError> {
    let mut parsed: Value =
        value.trim().parse().map_err(|error: toml_edit::TomlError| refused(error.message()))?;
    parsed.decor_mut().clear();
    Ok(parsed)
}

fn set(document: &mut DocumentMut, path: &[Step], value: Value) -> Result<(), EditError> {
    let (parent, last) = parent(document, path, Missing::Made)?;
    match last {
        Step::Key(key) => {
            let table = parent.table().ok_or_else(|| nowhere(path))?;
            match table.get_mut(key) {
                Some(item) => replace(item, value),
                None => add(table, key, value),
            }
        }
        Step::Place(place) => match parent.list().ok_or_else(|| nowhere(path))? {
            List::Values(list) if *place < list.len() => {
                // Unlike an assignment, this keeps the space and the comments around the item.
                list.replace(*place, value);
            }
            List::Tables(list) if *place < list.len() => {
                let table = list.get_mut(*place).ok_or_else(|| nowhere(path))?;
                *table = table_of(value).ok_or_else(|| refused("an item of this list is a table"))?;
            }
            _ => return Err(nowhere(path)),
        },
    }
    Ok(())
}

/// Adds a value. The space before the closing brace of an inline table belongs to its last value.
fn add(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(last) = table.iter_mut().last().and_then(|(_, item)| item.as_value_mut()) {
        let decor = last.decor_mut();
        let space = decor.suffix().and_then(|suffix| suffix.as_str()).filter(|text| text.trim().is_empty());
        if let Some(space) = space.map(str::to_owned) {
            decor.set_suffix("");
            value.decor_mut().set_suffix(space);
        }
    }
    table.insert(key, Item::Value(value));
}

/// Puts a value in the place of another and keeps what stands around it.
fn replace(item: &mut Item, value: Value) {
    let value = match (&*item, value) {
        (Item::Table(old), Value::InlineTable(new)) => {
            let mut table = new.into_table();
            *table.decor_mut() = old.decor().clone();
            table.set_position(old.position());
            *item = Item::Table(table);
            return;
        }
        (Item::Value(old), mut value) => {
            *value.decor_mut() = old.decor().clone();
            value
        }
        (_, value) => value,
    };
    *item = Item::Value(value);
}

fn insert(document: &mut DocumentMut, path: &[Step], value: Value) -> Result<(), EditError> {
    let [lists @ .., Step::Place(place)] = path else { return Err(nowhere(path)) };
    let (parent, last) = parent(document, lists, Missing::Made)?;
    if let Step::Key(key) = last {
        let table = parent.table().ok_or_else(|| nowhere(path))?;
        if table.get(key).is_none() {
            // Tables of a list, such as the routes of a class, each get a heading.
            let list = match value {
                Value::InlineTable(_) => Item::ArrayOfTables(ArrayOfTables::new()),
                _ => Item::Value(Value::Array(Array::new())),
            };
            table.insert(key, list);
        }
    }
    let node = descend(document, lists, Missing::Refused)?;
    match node.list().ok_or_else(|| nowhere(path))? {
        List::Values(list) if *place <= list.len() => insert_value(list, *place, value),
        List::Tables(list) if *place <= list.len() => {
            let table = table_of(value).ok_or_else(|| refused("an item of this list is a table"))?;
            insert_table(list, *place, table);
        }
        _ => return Err(nowhere(path)),
    }
    Ok(())
}

/// Inserts an item and continues the layout of the list: on a line of its own where its neighbour has one.
fn insert_value(list: &mut Array, place: usize, mut value: Value) {
    let neighbour = list.get(place.min(list.len().saturating_sub(1)));
    let before = neighbour.and_then(|each| each.decor().prefix()?.as_str());
    // Behind the last end of a line is the indentation; before it may be the neighbour's comment.
    match before.and_then(|space| space.rfind('\n').map(|line| space[line..].to_owned())) {
        Some(line) => value.decor_mut().set_prefix(line),
        None if place > 0 => value.decor_mut().set_prefix(" "),
        None => {
            if let Some(first) = list.get_mut(0) {
                first.decor_mut().set_prefix(" ");
            }
        }
    }
    list.insert_formatted(place, value);
}

/// Lists of tables have no insertion: the tables behind the place are taken out and put back.
fn insert_table(list: &mut ArrayOfTables, place: usize, table: Table) {
    let position = list.get(list.len().saturating_sub(1)).and_then(Table::position);
    let mut behind = Vec::new();
    while list.len() > place {
        let last = list.len() - 1;
        behind.push(list.get(last).cloned().unwrap_or_default());
        list.remove(last);
    }
    behind.push(table);
    for mut each in behind.into_iter().rev() {
        // Tables of one position keep the order of the list.
        each.set_position(position);
        list.push(each);
    }
}

fn remove(document: &mut DocumentMut, path: &[Step]) -> Result<(), EditError> {
    let Ok((parent, last)) = parent(document, path, Missing::Refused) else { return Ok(()) };
    match last {
        Step::Key(key) => {
            if let Some(table) = parent.table() {
                table.remove(key);
            }
        }
        Step::Place(place) => match parent.list() {
            Some(List::Values(list)) if *place < list.len() => {
                list.remove(*place);
                let first = list.get_mut(0).map(Value::decor_mut);
                if let Some(decor) = first
                    && *place == 0
                    && decor.prefix().and_then(|prefix| prefix.as_str()) == Some(" ")
                {
                    decor.set_prefix("");
                }
            }
            Some(List::Tables(list)) if *place < list.len() => {
                list.remove(*place);
            }
            _ => {}
        },
    }
    Ok(())
}

fn rename(document: &mut DocumentMut, path: &[Step], name: &str) -> Result<(), EditError> {
    let (parent, last) = parent(document, path, Missing::Refused)?;
    let (Step::Key(key), Some(table)) = (last, parent.table()) else { return Err(nowhere(path)) };
    if key == name {
        return Ok(());
    }
    if table.contains_key(name) {
        return Err(EditError(format!("there is already something named `{name}`")));
    }
    if !table.contains_key(key) {
        return Err(nowhere(path));
    }
    // Put back one after the other, the keys keep their order.
    let names: Vec<String> = table.iter().map(|(key, _)| key.to_owned()).collect();
    for each in names {
        let decor = table.key(&each).map(|key| key.leaf_decor().clone());
        let Some(item) = table.remove(&each) else { continue };
        let new = if each == *key { name } else { &each };
        table.insert(new, item);
        if let (Some(mut key), Some(decor)) = (table.key_mut(new), decor) {
            *key.leaf_decor_mut() = decor;
        }
    }
    Ok(())
}

fn table_of(value: Value) -> Option<Table> {
    match value {
        Value::InlineTable(table) => Some(table.into_table()),
        _ => None,
    }
}

/// Whether a table that a path leads through is made if it is missing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Missing {
    Made,
    Refused,
}

/// What a path has led to.
enum Node<'d> {
    Item(&'d mut Item),
    Value(&'d mut Value),
    Table(&'d mut Table),
}

/// The two forms of a list.
enum List<'d> {
    Values(&'d mut Array),
    Tables(&'d mut ArrayOfTables),
}

impl<'d> Node<'d> {
    fn table(self) -> Option<&'d mut dyn TableLike> {
        match self {
            Self::Item(item) => item.as_table_like_mut(),
            Self::Value(value) => value.as_inline_table_mut().map(|table| table as &mut dyn TableLike),
            Self::Table(table) => Some(table),
        }
    }

    fn list(self) -> Option<List<'d>> {
        match self {
            Self::Item(Item::ArrayOfTables(list)) => Some(List::Tables(list)),
            Self::Item(Item::Value(value)) | Self::Value(value) => value.as_array_mut().map(List::Values),
            _ => None,
        }
    }

    fn step(self, step: &Step, missing: Missing) -> Option<Self> {
        match step {
            Step::Key(key) => {
                let table = self.table()?;
                if missing == Missing::Made && !table.contains_key(key) {
                    let mut made = Table::new();
                    // It has no heading until it has a value of its own.
                    made.set_implicit(true);
                    table.insert(key, Item::Table(made));
                }
                table.get_mut(key).map(Node::Item)
            }
            Step::Place(place) => match self.list()? {
                List::Values(list) => list.get_mut(*place).map(Node::Value),
                List::Tables(list) => list.get_mut(*place).map(Node::Table),
            },
        }
    }
}

/// What a path leads to.
fn descend<'d>(
    document: &'d mut DocumentMut,
    path: &[Step],
    missing: Missing,
) -> Result<Node<'d>, EditError> {
    if path.len() > STEPS_MAX {
        return Err(EditError(format!("a path may have {STEPS_MAX} steps, not {}", path.len())));
    }
    let root = Node::Table(document.as_table_mut());
    path.iter().try_fold(root, |node, step| node.step(step, missing)).ok_or_else(|| nowhere(path))
}

/// What the last step of a path goes out from, and that step.
fn parent<'d, 'p>(
    document: &'d mut DocumentMut,
    path: &'p [Step],
    missing: Missing,
) -> Result<(Node<'d>, &'p Step), EditError> {
    let (last, before) = path.split_last().ok_or_else(|| refused("a path has at least one step"))?;
    Ok((descend(document, before, missing)?, last))
}

fn nowhere(path: &[Step]) -> EditError {
    let shown: Vec<String> = path
        .iter()
        .map(|step| match step {
            Step::Key(key) => key.clone(),
            Step::Place(place) => place.to_string(),
        })
        .collect();
    EditError(format!("the file has no place `{}`", shown.join(".")))
}
