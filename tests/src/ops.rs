//! The operations port, by plain HTTP.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use crate::wait::DEADLINE;

/// Status code and body of a GET.
///
/// # Panics
/// If there is no answer.
#[must_use]
pub fn get(address: SocketAddr, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(address).expect("the operations port is open");
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the answer is text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("an answer has a head");
    let status = head.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("an answer has a status");
    (status, body.to_owned())
}
