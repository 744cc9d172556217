//! The header of a [safetensors](super::safetensors) file: the subset of JSON that the format allows.

use super::safetensors::{Dtype, TensorEntry};
use std::fmt::Write as _;

/// The key whose value is not a tensor.
const METADATA: &str = "__metadata__";

/// What a header says.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub metadata: Vec<(String, String)>,
    pub tensors: Vec<TensorEntry>,
}

/// The text of a header.
pub(super) fn format(metadata: &[(&str, &str)], tensors: &[TensorEntry]) -> String {
    let pairs: Vec<String> = metadata.iter().map(|(k, v)| format!("{}:{}", quote(k), quote(v))).collect();
    let mut text = format!("{{\"{METADATA}\":{{{}}}", pairs.join(","));
    for TensorEntry { name, dtype, shape, range } in tensors {
        let shape: Vec<String> = shape.iter().map(usize::to_string).collect();
        let _ = write!(
            text,
            ",{}:{{\"dtype\":\"{}\",\"shape\":[{}],\"data_offsets\":[{},{}]}}",
            quote(name),
            dtype.name(),
            shape.join(","),
            range.start,
            range.end
        );
    }
    text + "}"
}

/// A JSON string.
pub(crate) fn quote(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\n' => out.push_str("\\n"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Reads a JSON list of strings.
pub(crate) fn strings(text: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    whole(text, |cursor| {
        cursor.expect(b'[')?;
        cursor.members(b']', |cursor| {
            found.push(cursor.string()?);
            Ok(())
        })
    })?;
    Ok(found)
}

/// Reads a JSON list of whole numbers.
pub(crate) fn integers(text: &str) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    whole(text, |cursor| {
        found = cursor.integers()?;
        Ok(())
    })?;
    found.into_iter().map(|n| usize::try_from(n).map_err(|e| e.to_string())).collect()
}

/// Reads a JSON object whose values are whole numbers.
pub(crate) fn counts(text: &str) -> Result<Vec<(String, usize)>, String> {
    let mut found = Vec::new();
    whole(text, |cursor| {
        cursor.object(|cursor, key| {
            cursor.skip_spaces();
            found.push((key, usize::try_from(cursor.integer()?).map_err(|e| e.to_string())?));
            Ok(())
        })
    })?;
    Ok(found)
}

/// Reads a text of which nothing may be left.
fn whole(text: &str, read: impl FnOnce(&mut Cursor<'_>) -> Result<(), String>) -> Result<(), String> {
    let mut cursor = Cursor { text, at: 0 };
    read(&mut cursor)?;
    cursor.skip_spaces();
    if cursor.at == text.len() { Ok(()) } else { Err("unexpected text after it".into()) }
}

/// Reads a header; the error says what is wrong and where.
pub(super) fn parse(text: &str) -> Result<Header, String> {
    let mut cursor = Cursor { text, at: 0 };
    let mut header = Header::default();
    let mut seen = false;
    let read = cursor.object(|cursor, key| {
        if key != METADATA {
            header.tensors.push(tensor(cursor, key)?);
            return Ok(());
        }
        if std::mem::replace(&mut seen, true) {
            return Err(format!("'{METADATA}' appears twice"));
        }
        cursor.skip_spaces();
        cursor.object(|cursor, key| {
            cursor.skip_spaces();
            header.metadata.push((key, cursor.string()?));
            Ok(())
        })
    });
    read.and_then(|()| {
        cursor.skip_spaces();
        if cursor.at == text.len() { Ok(()) } else { Err("unexpected text after the header".into()) }
    })
    .map_err(|why| format!("{why} (at byte {})", cursor.at))?;
    let twice = first_repeated(header.tensors.iter().map(|tensor| &tensor.name));
    match twice.or_else(|| first_repeated(header.metadata.iter().map(|(key, _)| key))) {
        Some(name) => Err(format!("'{name}' appears twice")),
        None => Ok(header),
    }
}

fn first_repeated<'a>(names: impl Iterator<Item = &'a String>) -> Option<&'a String> {
    let mut seen = std::collections::HashSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

/// Reads the value of a tensor's key.
fn tensor(cursor: &mut Cursor<'_>, name: String) -> Result<TensorEntry, String> {
    let (mut dtype, mut shape, mut range) = (None, None, None);
    cursor.skip_spaces();
    cursor.object(|cursor, key| {
        cursor.skip_spaces();
        let twice = match key.as_str() {
            "dtype" => {
                let name = cursor.string()?;
                let known = Dtype::parse(&name);
                let known =
                    known.ok_or_else(|| format!("the dtype '{name}' is not one that a model uses"))?;
                dtype.replace(known).is_some()
            }
            "shape" => {
                let sizes = cursor.integers()?.into_iter().map(usize::try_from).collect::<Result<_, _>>();
                shape.replace(sizes.map_err(|e| e.to_string())?).is_some()
            }
            "data_offsets" => {
                let [start, end] = cursor.integers()?[..] else {
                    return Err("data_offsets needs two numbers".into());
                };
                range.replace(start..end).is_some()
            }
            _ => return Err(format!("a tensor has no field '{key}'")),
        };
        if twice { Err(format!("'{key}' appears twice")) } else { Ok(()) }
    })?;
    match (dtype, shape, range) {
        (Some(dtype), Some(shape), Some(range)) => Ok(TensorEntry { name, dtype, shape, range }),
        _ => Err(format!("the tensor '{name}' lacks its dtype, shape or data_offsets")),
    }
}

/// A position in a JSON text. Nesting is as deep as the format allows and no deeper, so no input exhausts the stack.
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> bool {
        let there = self.peek() == Some(wanted);
        self.at += usize::from(there);
        there
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        match self.take(wanted) {
            true => Ok(()),
            false => Err(format!("'{}' is missing", char::from(wanted))),
        }
    }

    /// Reads members up to `close`, with commas in between.
    fn members(
        &mut self,
        close: u8,
        mut member: impl FnMut(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        self.skip_spaces();
        if self.take(close) {
            return Ok(());
        }
        loop {
            self.skip_spaces();
            member(self)?;
            self.skip_spaces();
            if self.take(close) {
                return Ok(());
            }
            self.expect(b',')?;
        }
    }

    /// Reads an object; `value` is called where a key's value begins.
    fn object(
        &mut self,
        mut value: impl FnMut(&mut Self, String) -> Result<(), String>,
    ) -> Result<(), String> {
        self.expect(b'{')?;
        self.members(b'}', |cursor| {
            let key = cursor.string()?;
            cursor.skip_spaces();
            cursor.expect(b':')?;
            value(cursor, key)
        })
    }

    fn integers(&mut self) -> Result<Vec<u64>, String> {
        self.expect(b'[')?;
        let mut numbers = Vec::new();
        self.members(b']', |cursor| {
            numbers.push(cursor.integer()?);
            Ok(())
        })?;
        Ok(numbers)
    }

    fn integer(&mut self) -> Result<u64, String> {
        let rest = &self.text[self.at..];
        let digits = &rest[..rest.bytes().take_while(u8::is_ascii_digit).count()];
        if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
            return Err("a whole number is missing".into());
        }
        self.at += digits.len();
        digits.parse().map_err(|_| format!("{digits} is too large"))
    }

    fn string(&mut self) -> Result<String, String> {
        self.expect(b'"')?;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let plain = rest.find(|c| c == '"' || c == '\\' || c < ' ').ok_or("a string is not closed")?;
            out.push_str(&rest[..plain]);
            self.at += plain;
            if self.take(b'"') {
                return Ok(out);
            }
            if !self.take(b'\\') {
                return Err("a control character in a string".into());
            }
            out.push(self.escaped()?);
        }
    }

    /// Reads what follows a backslash.
    fn escaped(&mut self) -> Result<char, String> {
        let letter = self.peek().ok_or("a string is not closed")?;
        self.at += 1;
        Ok(match letter {
            b'"' | b'\\' | b'/' => char::from(letter),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let mut code = self.four_digits()?;
                // JSON escapes characters beyond U+FFFF as two surrogates.
                if (0xd800..0xdc00).contains(&code) && self.take(b'\\') && self.take(b'u') {
                    let low = self.four_digits()?;
                    let low = low.checked_sub(0xdc00).filter(|low| *low < 0x400);
                    code = 0x10000 + ((code - 0xd800) << 10) + low.ok_or("an unpaired surrogate")?;
                }
                char::from_u32(code).ok_or("an unpaired surrogate")?
            }
            _ => {
                // So that the reported place is not inside a character.
                self.at -= 1;
                return Err("an invalid escape".into());
            }
        })
    }

    fn four_digits(&mut self) -> Result<u32, String> {
        let digits = self.text.get(self.at..self.at + 4).filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        self.at += if code.is_some() { 4 } else { 0 };
        code.ok_or_else(|| "\\u needs four hexadecimal digits".into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const X: &str = r#""x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]}"#;

    #[test]
    fn json_as_other_programs_write_it() {
        let text = "{\t\"x\" : { \"shape\" : [ 2 , 3 ] , \"data_offsets\":[0,24],\r\n\"dtype\" : \"F64\"} ,\
                    \"__metadata__\" : {\"k\":\"\\u00fc\\uD83D\\uDE00\\/\\b\\f\\n\\r\\t\\\"\\\\\", \"e\" : \"\" } }  ";
        let header = parse(text).unwrap();
        assert_eq!(header.metadata[0].1, "ü\u{1F600}/\u{8}\u{c}\n\r\t\"\\");
        assert_eq!(header.metadata[1], ("e".to_string(), String::new()));
        let entry = &header.tensors[0];
        assert_eq!((entry.dtype, &entry.shape[..], entry.range.clone()), (Dtype::F64, &[2, 3][..], 0..24));
        for none in ["{}", "{\"__metadata__\":{}}", "{ } "] {
            assert!(parse(none).unwrap().tensors.is_empty());
        }
    }

    #[test]
    fn values_of_metadata() {
        assert_eq!(strings(" [ \"a\" ,\"\\n\"] ".trim_start()).unwrap(), ["a", "\n"]);
        assert_eq!(integers("[3, 4]").unwrap(), [3, 4]);
        assert_eq!(counts("{\"length\": 7}").unwrap(), [("length".to_string(), 7)]);
        assert!(strings("[]").unwrap().is_empty() && integers("[]").unwrap().is_empty());
        for wrong in ["", "[", "[1,]", "[\"a\"] x", "{}", "[[1]]", "{\"a\": [1]}", "{\"a\"}"] {
            assert!(strings(wrong).is_err(), "{wrong}");
            assert!(integers(wrong).is_err(), "{wrong}");
            assert!(wrong == "{}" || counts(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_not_a_header_is_named() {
        for (text, word) in [
            ("", "'{' is missing"),
            ("[]", "'{' is missing"),
            (" {}", "'{' is missing"),
            ("{", "'\"' is missing"),
            ("{} x", "unexpected text"),
            ("{\"x\":{}}", "lacks"),
            ("{\"x\":1}", "'{' is missing"),
            ("{\"x\":{\"dtype\":\"BF16\"}}", "BF16"),
            ("{\"x\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "twice"),
            ("{\"x\":{\"more\":\"F32\"}}", "no field 'more'"),
            ("{\"x\":{\"shape\":[-1]}}", "whole number"),
            ("{\"x\":{\"shape\":[1.5]}}", "',' is missing"),
            ("{\"x\":{\"shape\":[01]}}", "whole number"),
            ("{\"x\":{\"shape\":[1e9]}}", "',' is missing"),
            ("{\"x\":{\"shape\":[18446744073709551616]}}", "too large"),
            ("{\"x\":{\"shape\":[1,]}}", "whole number"),
            ("{\"x\":{\"data_offsets\":[0,4,8]}}", "two numbers"),
            ("{\"x\":{\"data_offsets\":[0]}}", "two numbers"),
            ("{\"__metadata__\":{\"k\":1}}", "'\"' is missing"),
            ("{\"__metadata__\":{\"k\":{\"a\":\"b\"}}}", "'\"' is missing"),
            ("{\"__metadata__\":{\"k\":\"a\",\"k\":\"b\"}}", "'k' appears twice"),
            ("{\"__metadata__\":{},\"__metadata__\":{}}", "'__metadata__' appears twice"),
            ("{\"__metadata__\":{\"k\":\"\\ud800\"}}", "unpaired surrogate"),
            ("{\"__metadata__\":{\"k\":\"\\ud800\\u0041\"}}", "unpaired surrogate"),
            ("{\"__metadata__\":{\"k\":\"\\u12\"}}", "four hexadecimal digits"),
            ("{\"__metadata__\":{\"k\":\"\\u+123\"}}", "four hexadecimal digits"),
            ("{\"__metadata__\":{\"k\":\"\\x\"}}", "invalid escape"),
            ("{\"__metadata__\":{\"k\":\"\\ü\"}}", "invalid escape"),
            ("{\"__metadata__\":{\"k\":\"a\nb\"}}", "control character"),
            ("{\"__metadata__\":{\"k\":\"", "not closed"),
        ] {
            let said = parse(text).unwrap_err();
            assert!(said.contains(word), "{text}: {said}");
        }
        assert!(parse(&format!("{{{X},{X}}}")).unwrap_err().contains("'x' appears twice"));
        let deep = "[".repeat(100_000);
        for text in [deep.clone(), format!("{{\"x\":{deep}"), "{\"x\":".repeat(100_000)] {
            assert!(parse(&text).is_err());
        }
    }
}
