//! Tables on narrow terminals: every line of one fits, and what has no room is named.

use super::{forerun, output};

/// Stdout on a terminal of so many columns.
fn on(columns: usize, words: &[&str]) -> String {
    let done = forerun(words).env("COLUMNS", columns.to_string()).assert();
    String::from_utf8(done.get_output().stdout.clone()).expect("UTF-8")
}

/// The lines that are longer.
fn longer(text: &str, columns: usize) -> Vec<&str> {
    text.lines().filter(|line| line.chars().count() > columns).collect()
}

#[test]
fn tables_fit_a_terminal_of_80_columns_and_one_of_60() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let mut lines = String::from("t,dev,off,bytes,op,pid,file\n");
    for n in 0..600 {
        let file = format!("/srv/data/tables/of/a/long/path/{}/orders.idx", n % 3);
        lines.push_str(&format!(
            "{n},disk{},{},4096,R,reader-{},{file}\n",
            n % 2,
            (n * 37 % 500) * 4096,
            n % 4
        ));
    }
    std::fs::write(at("t.csv"), lines).expect("written");
    let trace = at("t.csv");
    let tables: [&[&str]; 9] = [
        &["trace", "patterns", &trace],
        &["trace", "patterns", &trace, "--by", "file"],
        &["trace", "patterns", &trace, "--by", "process"],
        &["mrc", &trace, "--retention", "lru,arc,s3fifo,sieve"],
        &["mrc", &trace, "--map", "one-array-each"],
        &["explain", "streams", "--device", "wd-7200", "--cache", "128M"],
        &[
            "explain",
            "cadence(wait=1s,rate=512KiB)",
            "--device",
            "wd-7200",
            "--cache",
            "256M",
            "--streams",
            "80",
        ],
        &["device", "list"],
        &["--quiet", "reproduce", "asp", "--quick", "--seeds", "1", "--figure", "6"],
    ];
    for words in tables {
        for columns in [60, 80] {
            let text = on(columns, words);
            // A single word that is longer cannot be broken.
            let long = longer(&text, columns);
            assert!(long.is_empty() && text.lines().count() > 3, "{words:?} at {columns}: {long:#?}\n{text}");
        }
    }
    let narrow = on(60, &["trace", "patterns", &trace, "--by", "file"]);
    assert!(narrow.contains("No room for ") && narrow.contains("--json"), "{narrow}");
    assert!(narrow.contains("2/orders.idx"), "the end of a path tells one from another: {narrow}");
    let piped = output(&["trace", "patterns", &trace, "--by", "file"]);
    assert!(piped.contains("/srv/data/tables/of/a/long/path/2/orders.idx"), "a pipe gets all: {piped}");
}

#[test]
fn doctor_fits_with_its_table_and_its_prose() {
    for columns in [60, 80] {
        let text = on(columns, &["doctor"]);
        // Commands stand in lines of their own, whole, so that they can be copied.
        let prose = text.lines().filter(|line| !line.starts_with("            "));
        let long: Vec<&str> = prose.filter(|line| line.chars().count() > columns).collect();
        let table: Vec<&str> = text.lines().skip(2).take_while(|line| !line.is_empty()).collect();
        assert!(table.iter().all(|line| line.chars().count() <= columns), "{columns}: {table:#?}");
        let what_and_why =
            long.iter().filter(|line| line.starts_with("  what is") || line.starts_with("  why"));
        assert_eq!(what_and_why.count(), 0, "{columns}: {long:#?}");
    }
}
