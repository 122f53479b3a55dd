//! Why an object cannot be served, in one line that ends with the remedy.
//!
//! The library of the stores says a refusal as the request, the retries, the status and the body of the answer, one in the
//! other. A person needs two things of it: what the store meant and what to do. A store that speaks S3 names the reason in
//! a `<Code>` of its answer; what comes from a network is found in the chain of causes. What is not known here is said in the
//! library's words, shortened: the body is a stranger's text.

use object_store::Error;
use object_store::client::{HttpError, HttpErrorKind};
use std::error::Error as StdError;

/// Characters of a text of the store or the library that are shown.
const TEXT_MAX: usize = 300;

/// What a code of S3 means, and the remedy. Source: the API reference of Amazon S3, "Error responses".
const CODES: [(&str, &str); 15] = [
    ("NoSuchBucket", "there is no such bucket: check its name, AWS_ENDPOINT_URL and AWS_REGION"),
    ("NoSuchKey", "the bucket has no such object: check the key, where case and every / count"),
    ("NoSuchVersion", "the object is not there any more: check the key"),
    ("InvalidBucketName", "no bucket can have this name: check the address, s3://BUCKET/KEY"),
    (
        "AccessDenied",
        "these credentials may not read it: allow s3:GetObject, or use others (AWS_ACCESS_KEY_ID)",
    ),
    (
        "InvalidAccessKeyId",
        "the store does not know the access key: check AWS_ACCESS_KEY_ID and AWS_ENDPOINT_URL",
    ),
    ("SignatureDoesNotMatch", "the secret does not belong to the access key: check AWS_SECRET_ACCESS_KEY"),
    ("ExpiredToken", "the credentials have expired: get new ones (AWS_SESSION_TOKEN)"),
    ("InvalidToken", "the session token is not of these credentials: check AWS_SESSION_TOKEN, or unset it"),
    ("RequestTimeTooSkewed", "the clock of this machine is wrong: set it"),
    ("AuthorizationHeaderMalformed", "the bucket is in another region: set AWS_REGION"),
    (
        "PermanentRedirect",
        "the bucket is in another region or at another endpoint: set AWS_REGION, AWS_ENDPOINT_URL",
    ),
    ("IllegalLocationConstraintException", "the bucket is in another region: set AWS_REGION"),
    ("InvalidObjectState", "the object is archived: restore it first"),
    ("SlowDown", "the store has too many requests: try later"),
];

/// What the library says when an answer sends it elsewhere without saying where, as S3 does from a wrong region.
const REDIRECTED: &str = "redirect without LOCATION";
/// Where a machine of a cloud gets credentials if nothing names any; asked last.
const METADATA: &str = "/latest/";

/// The reason and the remedy of a failure to look at an object.
pub(super) fn explain(problem: &Error) -> String {
    let text = problem.to_string();
    if let Some((code, meaning)) = named(&text) {
        let region = between(&text, "<Region>", "</Region>")
            .map_or(String::new(), |region| format!(" (the store says {})", shown(region)));
        return format!("{meaning}{region} ({code})");
    }
    if text.contains(METADATA) {
        return "no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY (aws configure export-credentials \
                --format env prints them), or AWS_SKIP_SIGNATURE=true for a public bucket"
            .into();
    }
    if text.contains(REDIRECTED) {
        return "the store sends us elsewhere: the bucket is in another region, set AWS_REGION".into();
    }
    if let Some(network) = network(problem) {
        return network;
    }
    match problem {
        Error::NotFound { .. } => format!("there is no such object: check the address ({})", cause(problem)),
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            format!("its server refuses to show it: check the credentials ({})", cause(problem))
        }
        _ => shown(&text),
    }
}

/// The code of an answer of S3, if it is one that is known.
fn named(text: &str) -> Option<(&'static str, &'static str)> {
    let code = between(text, "<Code>", "</Code>")?;
    CODES.iter().find(|(name, _)| *name == code).copied()
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let rest = &text[text.find(before)? + before.len()..];
    Some(&rest[..rest.find(after)?])
}

/// What happened before any answer came.
fn network(problem: &Error) -> Option<String> {
    let mut next = Some(problem as &dyn StdError);
    let http = loop {
        let error = next?;
        if let Some(found) = error.downcast_ref::<HttpError>() {
            break found;
        }
        next = error.source();
    };
    let cause = cause(http);
    Some(if cause.contains("scheme is not allowed") {
        "it would go over the network without TLS: use an https:// endpoint, or set AWS_ALLOW_HTTP=true"
            .into()
    } else if cause.contains("certificate") {
        format!(
            "its server is not whom it should be ({cause}): SSL_CERT_FILE=FILE names other authorities, in PEM"
        )
    } else if http.kind() == HttpErrorKind::Connect {
        format!(
            "its server cannot be reached ({cause}): check the name and the port (s3://: AWS_ENDPOINT_URL)"
        )
    } else {
        format!("its server does not answer ({cause}): try again, or check that it speaks HTTP")
    })
}

/// The deepest cause, which says what happened; those above say to whom.
fn cause(error: &(dyn StdError + 'static)) -> String {
    let mut deepest = error;
    while let Some(below) = deepest.source() {
        deepest = below;
    }
    shown(&deepest.to_string())
}

/// One short line of a text that may be anything.
fn shown(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let short: String = line.chars().filter(|c| !c.is_control()).take(TEXT_MAX).collect();
    if short.len() < line.len() { format!("{short}…") } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answered(body: &str) -> String {
        explain(&Error::Generic { store: "S3", source: format!("status code: 400: {body}").into() })
    }

    #[test]
    fn a_code_of_s3_becomes_what_it_means_and_what_to_do() {
        for (code, meaning) in CODES {
            let said = answered(&format!("<Error><Code>{code}</Code><Message>m</Message></Error>"));
            assert_eq!(said, format!("{meaning} ({code})"));
            assert!(meaning.contains(": ") || meaning.contains("set "), "{meaning} has a remedy");
        }
        let said = answered("<Code>AuthorizationHeaderMalformed</Code><Region>eu-west-1</Region>");
        assert!(said.contains("AWS_REGION (the store says eu-west-1)"), "{said}");
        let said = answered("Received redirect without LOCATION, this normally");
        assert!(said.contains("AWS_REGION"), "{said}");
    }

    #[test]
    fn what_nobody_knows_is_said_in_one_short_line_without_control_characters() {
        let said = answered(&format!("<Code>Strange</Code>\n\n\u{1b}[31m{}", "x".repeat(1000)));
        assert!(
            said.contains("Strange") && said.ends_with('…') && said.chars().count() == TEXT_MAX + 1,
            "{said}"
        );
        assert!(said.chars().all(|c| !c.is_control()), "{said}");
        let cut = answered("<Code>NoSuchKey");
        assert!(cut.contains("NoSuchKey"), "a tag without an end is no code: {cut}");
    }
}
