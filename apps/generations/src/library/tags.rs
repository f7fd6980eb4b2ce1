//! Tags of generations and artifacts.

use steadfast_core::{Error, Handle, Result, Turn, rusqlite::OptionalExtension};

use super::{Changed, Library, SetTag, TagTarget, mirror};

/// Characters of a tag.
pub const TAG_MAX: usize = 64;
/// Tags of one thing.
pub const TAGS_MAX: usize = 20;

/// Whether a text can be a tag.
pub fn is_tag(text: &str) -> bool {
    let len = text.chars().count();
    (1..=TAG_MAX).contains(&len) && !text.chars().any(char::is_control) && text.trim() == text
}

impl Handle<SetTag> for Library {
    const NAME: &'static str = "set-tag";
    type Reply = Option<Changed>;

    fn handle(&self, turn: &Turn<Self>, msg: SetTag) -> Result<Option<Changed>> {
        let (sql, target) = (turn.sql(), msg.target.name());
        let select = match msg.target {
            TagTarget::Generation => "SELECT 1 FROM generations WHERE id = ?1",
            TagTarget::Artifact => "SELECT 1 FROM artifacts WHERE id = ?1",
        };
        if sql.query_row(select, [&msg.id], |_| Ok(())).optional()?.is_none() {
            return Ok(None);
        }
        if !msg.is_on {
            let delete = "DELETE FROM tags WHERE tag = ?1 AND targetType = ?2 AND targetId = ?3";
            sql.execute(delete, (&msg.tag, target, &msg.id))?;
            return tell_of(turn, &msg);
        }
        let insert = "INSERT OR IGNORE INTO tags VALUES (?1, ?2, ?3)";
        sql.execute(insert, (&msg.tag, target, &msg.id))?;
        let count = "SELECT count(*) FROM tags WHERE targetType = ?1 AND targetId = ?2";
        let count: usize = sql.query_row(count, (target, &msg.id), |row| row.get(0))?;
        if TAGS_MAX < count {
            let text = format!("`{}` has {TAGS_MAX} tags, which is all that it may have", msg.id);
            return Err(Error::terminal(text).with_code("too_many_tags"));
        }
        tell_of(turn, &msg)
    }
}

fn tell_of(turn: &Turn<Library>, msg: &SetTag) -> Result<Option<Changed>> {
    Ok(match msg.target {
        TagTarget::Generation => Some(mirror::tell(turn, &msg.id, None)?),
        TagTarget::Artifact => match mirror::generation_of(turn, &msg.id)? {
            Some(generation) => Some(mirror::tell(turn, &generation, Some(&msg.id))?),
            None => None,
        },
    })
}
