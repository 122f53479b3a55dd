//! What a visitor asks, parsed from bytes that nobody vouches for.
//!
//! Only what is needed: the method, the path, numbers in the query, and the name by which the visitor calls us.

use std::net::{Ipv4Addr, Ipv6Addr};

/// What may be asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    /// As GET, without the content.
    Head,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    method: Method,
    path: String,
    query: String,
}

/// Why a request is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// It is no HTTP/1 request.
    Malformed,
    /// Neither GET nor HEAD.
    Method,
    /// It calls us by a name that is not ours.
    Host,
}

impl Refusal {
    /// What is wrong, and what to do.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Malformed => "this is no HTTP/1.1 request with one Host\n",
            Self::Method => "only GET and HEAD: nothing can be changed here\n",
            Self::Host => "call this server by its address or as localhost; a name could be another site's\n",
        }
    }
}

impl Request {
    /// Parses what stands before the blank line, which must be there.
    pub(crate) fn parse(head: &[u8]) -> Result<Self, Refusal> {
        let end = head.windows(4).position(|end| end == b"\r\n\r\n").ok_or(Refusal::Malformed)?;
        let head = std::str::from_utf8(&head[..end]).map_err(|_| Refusal::Malformed)?;
        let mut lines = head.split("\r\n");
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Refusal::Malformed);
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") || !target.starts_with('/') {
            return Err(Refusal::Malformed);
        }
        let hosts = lines.filter_map(|line| line.split_once(':'));
        let mut hosts = hosts.filter(|(name, _)| name.eq_ignore_ascii_case("host"));
        let (Some((_, host)), None) = (hosts.next(), hosts.next()) else { return Err(Refusal::Malformed) };
        if !is_ours(host.trim()) {
            return Err(Refusal::Host);
        }
        let method = match method {
            "GET" => Method::Get,
            "HEAD" => Method::Head,
            _ => return Err(Refusal::Method),
        };
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Ok(Self { method, path: path.to_owned(), query: query.to_owned() })
    }

    /// What it asks for, without the query.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    pub(crate) const fn method(&self) -> Method {
        self.method
    }

    /// A number of the query; 0 where there is none.
    #[must_use]
    pub fn number(&self, name: &str) -> u64 {
        let mut pairs = self.query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok()).unwrap_or(0)
    }
}

/// Whether a Host is an address or localhost, with or without a port: no other site can have such a name.
fn is_ours(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split_once(']').is_some_and(|(address, port)| {
            address.parse::<Ipv6Addr>().is_ok() && (port.is_empty() || is_port(port.strip_prefix(':')))
        });
    }
    let (name, port) = host.split_once(':').map_or((host, None), |(name, port)| (name, Some(port)));
    let named = name.eq_ignore_ascii_case("localhost") || name.parse::<Ipv4Addr>().is_ok();
    named && (port.is_none() || is_port(port))
}

fn is_port(text: Option<&str>) -> bool {
    text.is_some_and(|text| text.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Request, Refusal> {
        Request::parse(text.as_bytes())
    }

    #[test]
    fn a_request_has_a_method_a_path_and_numbers() {
        let request = parse("GET /live.json?export=2&since=17&x HTTP/1.1\r\nhost: 127.0.0.1:8000\r\n\r\n");
        let request = request.expect("well formed");
        assert_eq!((request.method, request.path.as_str()), (Method::Get, "/live.json"));
        assert_eq!((request.number("export"), request.number("since"), request.number("y")), (2, 17, 0));
        assert_eq!(request.number("x"), 0);
    }

    #[test]
    fn only_addresses_and_localhost_are_our_names() {
        for ours in
            ["127.0.0.1", "127.0.0.1:8000", "localhost:80", "LOCALHOST", "[::1]:8000", "[::1]", "10.0.0.7"]
        {
            assert!(is_ours(ours), "{ours}");
        }
        for other in [
            "",
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "[::1",
            "[x]:1",
            "1.2.3.4:x",
            "127.0.0.1:99999",
            "localhost:",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }

    #[test]
    fn mutated_requests_end_in_an_answer_or_a_refusal_and_never_under_a_foreign_name() {
        let whole = b"GET /live.json?export=2&since=17 HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\n";
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state % below as u64) as usize
        };
        let (mut fine, mut refused) = (0, 0);
        for _ in 0..50_000 {
            let mut bytes = whole.to_vec();
            for _ in 0..=next(3) {
                let at = next(bytes.len());
                match next(3) {
                    0 => bytes[at] = next(256) as u8,
                    1 => drop(bytes.remove(at)),
                    _ => bytes.insert(at, b" \r\n:/?&=[]"[next(10)]),
                }
            }
            match Request::parse(&bytes) {
                Ok(request) => {
                    fine += 1;
                    let named = String::from_utf8_lossy(&bytes).to_ascii_lowercase();
                    assert!(named.contains("localhost"), "{named}");
                    assert!(request.path.starts_with('/') && request.number("since") < u64::MAX);
                }
                Err(_) => refused += 1,
            }
        }
        assert!(fine > 1_000 && refused > 1_000, "{fine} fine, {refused} refused");
    }

    #[test]
    fn what_is_no_request_is_refused_for_what_it_is() {
        let rest = "HTTP/1.1\r\nHost: localhost\r\n\r\n";
        assert_eq!(parse(&format!("POST /stats.json {rest}")), Err(Refusal::Method));
        assert_eq!(parse("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), Err(Refusal::Host));
        assert_eq!(parse("GET / HTTP/1.1\r\n\r\n"), Err(Refusal::Malformed));
        assert_eq!(parse("GET / HTTP/1.1\r\nHost: localhost\r\nHost: x\r\n\r\n"), Err(Refusal::Malformed));
        for wrong in ["", "GET", "GET /", "GET / HTTP/2", "GET http://x/ HTTP/1.1", "GET  / HTTP/1.1"] {
            assert_eq!(
                parse(&format!("{wrong}\r\nHost: localhost\r\n\r\n")),
                Err(Refusal::Malformed),
                "{wrong}"
            );
        }
        assert_eq!(Request::parse(b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n"), Err(Refusal::Malformed));
        assert_eq!(parse("GET / HTTP/1.1"), Err(Refusal::Malformed));
    }
}
