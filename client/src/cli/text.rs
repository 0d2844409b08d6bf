//! Escapes, record formats and bytes as text.

use std::str::FromStr;

use wharf_proto::v1;

/// Why a text with escapes or a format cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum TextError {
    #[error("unknown escape `\\{0}`: use \\t, \\n, \\r, \\0, \\\\ or \\xHH")]
    UnknownEscape(char),
    #[error("a lone backslash at the end: write \\\\")]
    LoneBackslash,
    #[error("`\\x` takes two hexadecimal digits")]
    BadHex,
    #[error("unknown `%{0}`: use %k %v %t %p %o %T %a %h or %%")]
    UnknownField(char),
    #[error("a lone % at the end: write %%")]
    LonePercent,
    #[error("`{0}` is not NAME=VALUE")]
    NoEquals(String),
    #[error("must not be empty")]
    Empty,
}

/// The bytes that a text with escapes means.
pub(super) fn unescape(text: &str) -> Result<Vec<u8>, TextError> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        if character == '\\' {
            bytes.push(escaped(&mut characters)?);
        } else {
            push_char(&mut bytes, character);
        }
    }
    Ok(bytes)
}

fn escaped(characters: &mut std::str::Chars<'_>) -> Result<u8, TextError> {
    match characters.next().ok_or(TextError::LoneBackslash)? {
        't' => Ok(b'\t'),
        'n' => Ok(b'\n'),
        'r' => Ok(b'\r'),
        '0' => Ok(0),
        '\\' => Ok(b'\\'),
        'x' => {
            let digits: Vec<u32> =
                characters.by_ref().take(2).map_while(|digit| digit.to_digit(16)).collect();
            match digits[..] {
                [high, low] => u8::try_from(high * 16 + low).map_err(|_| TextError::BadHex),
                _ => Err(TextError::BadHex),
            }
        }
        other => Err(TextError::UnknownEscape(other)),
    }
}

fn push_char(bytes: &mut Vec<u8>, character: char) {
    bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
}

/// A separator: at least one byte, escapes allowed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Separator(pub(super) Vec<u8>);

impl FromStr for Separator {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let bytes = unescape(text)?;
        if bytes.is_empty() { Err(TextError::Empty) } else { Ok(Separator(bytes)) }
    }
}

impl Separator {
    /// What stands before and after the first separator.
    pub(super) fn split<'a>(&self, line: &'a [u8]) -> Option<(&'a [u8], &'a [u8])> {
        let at = match self.0[..] {
            [byte] => line.iter().position(|candidate| *candidate == byte)?,
            _ => line.windows(self.0.len()).position(|window| window == self.0)?,
        };
        Some((&line[..at], &line[at + self.0.len()..]))
    }

    /// For messages.
    pub(super) fn display(&self) -> String {
        String::from_utf8_lossy(&self.0).into_owned()
    }
}

/// `NAME=VALUE`, split at the first `=`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NameValue {
    pub(super) name: String,
    pub(super) value: String,
}

impl FromStr for NameValue {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => {
                Ok(NameValue { name: name.to_owned(), value: value.to_owned() })
            }
            _ => Err(TextError::NoEquals(text.to_owned())),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Literal(Vec<u8>),
    Key,
    Value,
    Topic,
    Partition,
    Offset,
    Timestamp,
    AppendTime,
    Headers,
}

/// How a record is printed: `%k` key, `%v` value, `%t` topic, `%p` partition, `%o` offset, `%T` event time and `%a` append time
/// in milliseconds since the Unix epoch, `%h` headers as `name=value,name=value`, `%%`, and the escapes. A missing key or
/// value prints as nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RecordFormat {
    pieces: Vec<Piece>,
}

impl FromStr for RecordFormat {
    type Err = TextError;

    fn from_str(text: &str) -> Result<Self, TextError> {
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            let piece = match character {
                '\\' => {
                    literal.push(escaped(&mut characters)?);
                    continue;
                }
                '%' => match characters.next().ok_or(TextError::LonePercent)? {
                    'k' => Piece::Key,
                    'v' => Piece::Value,
                    't' => Piece::Topic,
                    'p' => Piece::Partition,
                    'o' => Piece::Offset,
                    'T' => Piece::Timestamp,
                    'a' => Piece::AppendTime,
                    'h' => Piece::Headers,
                    '%' => {
                        literal.push(b'%');
                        continue;
                    }
                    other => return Err(TextError::UnknownField(other)),
                },
                other => {
                    push_char(&mut literal, other);
                    continue;
                }
            };
            if !literal.is_empty() {
                pieces.push(Piece::Literal(std::mem::take(&mut literal)));
            }
            pieces.push(piece);
        }
        if !literal.is_empty() {
            pieces.push(Piece::Literal(literal));
        }
        Ok(RecordFormat { pieces })
    }
}

impl RecordFormat {
    /// Appends a record to `out`, its bytes as they are.
    pub(super) fn render(&self, topic: &str, partition: i32, record: &v1::FetchedRecord, out: &mut Vec<u8>) {
        for piece in &self.pieces {
            match piece {
                Piece::Literal(bytes) => out.extend_from_slice(bytes),
                Piece::Key => out.extend_from_slice(record.key.as_deref().unwrap_or_default()),
                Piece::Value => out.extend_from_slice(record.value.as_deref().unwrap_or_default()),
                Piece::Topic => out.extend_from_slice(topic.as_bytes()),
                Piece::Partition => push_number(out, i64::from(partition)),
                Piece::Offset => push_number(out, record.offset.unwrap_or_default()),
                Piece::Timestamp => push_number(out, record.timestamp_ms.unwrap_or_default()),
                Piece::AppendTime => push_number(out, record.append_time_ms.unwrap_or_default()),
                Piece::Headers => push_headers(out, &record.headers),
            }
        }
    }
}

fn push_number(out: &mut Vec<u8>, number: i64) {
    out.extend_from_slice(number.to_string().as_bytes());
}

fn push_headers(out: &mut Vec<u8>, headers: &[v1::Header]) {
    for (index, header) in headers.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(header.name.as_bytes());
        if let Some(value) = &header.value {
            out.push(b'=');
            out.extend_from_slice(value);
        }
    }
}

/// Standard base64 with padding, as JSON of protobuf has it.
pub(super) fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group =
            chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            if place <= chunk.len() {
                text.push(char::from(ALPHABET[(group >> (18 - 6 * place) & 0x3f) as usize]));
            } else {
                text.push('=');
            }
        }
    }
    text
}

/// A word that a POSIX shell reads back as `text`.
pub(super) fn shell_quote(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=@%+,".contains(&byte);
    if !text.is_empty() && text.bytes().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn escapes_mean_bytes() {
        assert_eq!(unescape(r"a\tb\n\0\\\xff").unwrap(), b"a\tb\n\0\\\xff");
        assert_eq!(unescape("ü").unwrap(), "ü".as_bytes());
        assert_eq!(unescape(r"\q"), Err(TextError::UnknownEscape('q')));
        assert_eq!(unescape("\\"), Err(TextError::LoneBackslash));
        assert_eq!(unescape(r"\x1"), Err(TextError::BadHex));
        assert_eq!(unescape(r"\xzz"), Err(TextError::BadHex));
    }

    #[test]
    fn the_first_separator_splits() {
        let tab: Separator = r"\t".parse().unwrap();
        assert_eq!(tab.split(b"k\tv\tw"), Some((&b"k"[..], &b"v\tw"[..])));
        assert_eq!(tab.split(b"\t"), Some((&b""[..], &b""[..])));
        assert_eq!(tab.split(b"kv"), None);
        let arrow: Separator = "=>".parse().unwrap();
        assert_eq!(arrow.split(b"a=b=>c"), Some((&b"a=b"[..], &b"c"[..])));
        assert!("".parse::<Separator>().is_err());
    }

    #[test]
    fn headers_are_name_and_value() {
        let pair: NameValue = "a=b=c".parse().unwrap();
        assert_eq!((pair.name.as_str(), pair.value.as_str()), ("a", "b=c"));
        assert!("=x".parse::<NameValue>().is_err());
        assert!("x".parse::<NameValue>().is_err());
    }

    #[test]
    fn a_format_prints_every_field_with_raw_bytes() {
        let header = |name: &str, value: Option<&'static str>| v1::Header {
            name: name.into(),
            value: value.map(Into::into),
            value_text: None,
        };
        let record = v1::FetchedRecord {
            offset: Some(7),
            timestamp_ms: Some(1),
            append_time_ms: Some(2),
            key: Some("k".into()),
            value: Some(bytes::Bytes::from_static(b"\xff")),
            headers: vec![header("a", Some("1")), header("b", None)],
            ..Default::default()
        };
        let format: RecordFormat = r"%t/%p/%o %T %a [%k] [%v] %h 100%%\n".parse().unwrap();
        let mut out = Vec::new();
        format.render("topic", 3, &record, &mut out);
        assert_eq!(out, b"topic/3/7 1 2 [k] [\xff] a=1,b 100%\n");
        assert_eq!("%x".parse::<RecordFormat>(), Err(TextError::UnknownField('x')));
        assert_eq!("%".parse::<RecordFormat>(), Err(TextError::LonePercent));
    }

    #[test]
    fn base64_pads() {
        for (bytes, text) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg==")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "+/8=");
    }

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(shell_quote("localhost:7070"), "localhost:7070");
        assert_eq!(shell_quote(r#"{"a":"it's"}"#), r#"'{"a":"it'\''s"}'"#);
        assert_eq!(shell_quote(""), "''");
    }
}
