//! Replays a trace over NBD: a connection for each process, each with one read outstanding, in the order of the trace.
//!
//! `cargo run --release -p forerun-serve --example replay -- SOCKET TRACE.csv [SECONDS]`
//!
//! With SECONDS it ends after that time, though reads are left.
//! The trace is this project's CSV, `t,dev,off,bytes,op,pid,file`, with offsets of the export; times are not looked at, writes
//! and the columns `dev` and `file` neither. Prints how long it took as one JSON object. It is what `scripts/bench-serve.py`
//! measures with: the simulator runs the same list (`forerun sim TRACE.csv`), and the client costs little beside a disk.
#![expect(clippy::print_stdout, reason = "a program that reports to a script")]

use forerun_serve::nbd::client::{Opening, REPLY_BYTES, Reply, Step, parse_reply};
use forerun_serve::nbd::wire::{Command, Request, request_bytes};
use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

type Problem = Box<dyn Error + Send + Sync>;
/// First byte and bytes of a read.
type Read = (u64, u32);

/// Longest read, bytes: what servers take without being asked.
const READ_BYTES_MAX: u32 = 32 << 20;

/// Reads by process, in order.
fn parse(text: &str) -> Result<BTreeMap<&str, Vec<Read>>, Problem> {
    let mut processes: BTreeMap<&str, Vec<Read>> = BTreeMap::new();
    for (number, line) in (1..).zip(text.lines()).skip(1) {
        let fields: Vec<&str> = line.split(',').collect();
        let [_, _, offset, bytes, op, process, ..] = fields[..] else {
            return Err(format!("line {number} is not t,dev,off,bytes,op,pid,file").into());
        };
        if op != "R" {
            continue;
        }
        let wrong = |_| format!("line {number}: `{offset}` or `{bytes}` is no number");
        let read = (offset.parse().map_err(wrong)?, bytes.parse().map_err(wrong)?);
        if read.1 > READ_BYTES_MAX {
            return Err(format!("line {number}: a read of {bytes} bytes is too long").into());
        }
        processes.entry(process).or_default().push(read);
    }
    Ok(processes)
}

fn connect(socket: &Path) -> Result<UnixStream, Problem> {
    let mut stream = UnixStream::connect(socket)?;
    let (mut machine, mut input) = (Opening::new(""), Vec::new());
    loop {
        let mut out = Vec::new();
        let (took, step) = machine.step(&input, &mut out)?;
        input.drain(..took);
        stream.write_all(&out)?;
        match step {
            Step::Agreed(_) => return Ok(stream),
            Step::Again => {}
            Step::StartTls => return Err("TLS that nobody asked for".into()),
            Step::More => {
                let mut byte = [0];
                stream.read_exact(&mut byte)?;
                input.push(byte[0]);
            }
        }
    }
}

/// What one process, or all, came to.
#[derive(Default)]
struct Outcome {
    latencies_us: Vec<u64>,
    bytes: u64,
}

/// One process: its reads, one after the other, for so long.
fn replay(
    mut stream: UnixStream,
    reads: &[Read],
    start: &Barrier,
    most: Duration,
) -> Result<Outcome, Problem> {
    let longest = reads.iter().map(|read| read.1).max().unwrap_or(0);
    let mut data = vec![0; longest as usize];
    let mut outcome = Outcome { latencies_us: Vec::with_capacity(reads.len()), bytes: 0 };
    start.wait();
    let first = Instant::now();
    for (cookie, &(offset, length)) in (0..).zip(reads) {
        let begin = Instant::now();
        if begin - first >= most {
            break;
        }
        stream.write_all(&request_bytes(&Request {
            flags: 0,
            command: Command::Read,
            cookie,
            offset,
            length,
        }))?;
        let mut head = [0; REPLY_BYTES];
        stream.read_exact(&mut head)?;
        if parse_reply(&head) != (Reply::Simple { cookie, error: 0 }) {
            return Err(format!("the read of {length} bytes at {offset} failed").into());
        }
        stream.read_exact(&mut data[..length as usize])?;
        outcome.latencies_us.push(u64::try_from(begin.elapsed().as_micros())?);
        outcome.bytes += u64::from(length);
    }
    Ok(outcome)
}

fn run(socket: &Path, trace: &Path, most: Duration) -> Result<(), Problem> {
    let text = std::fs::read_to_string(trace)?;
    let processes = parse(&text)?;
    let streams: Vec<UnixStream> =
        processes.keys().map(|_| connect(socket)).collect::<Result<_, Problem>>()?;
    let start = Barrier::new(processes.len() + 1);
    let (took, outcome) = std::thread::scope(|scope| {
        let handles: Vec<_> = processes
            .values()
            .zip(streams)
            .map(|(reads, stream)| scope.spawn(|| replay(stream, reads, &start, most)))
            .collect();
        start.wait();
        let begin = Instant::now();
        let mut all = Outcome::default();
        for handle in handles {
            let one = handle.join().map_err(|_| "a client panicked")??;
            all.latencies_us.extend(one.latencies_us);
            all.bytes += one.bytes;
        }
        Ok::<_, Problem>((begin.elapsed(), all))
    })?;
    let Outcome { latencies_us: mut latencies, bytes } = outcome;
    latencies.sort_unstable();
    let at = |share: usize| latencies.get(latencies.len() * share / 100).copied().unwrap_or(0);
    println!(
        "{{\"requests\": {}, \"bytes\": {bytes}, \"elapsed_s\": {:.6}, \"p50_us\": {}, \"p99_us\": {}}}",
        latencies.len(),
        took.as_secs_f64(),
        at(50),
        at(99)
    );
    Ok(())
}

fn main() -> ExitCode {
    let arguments: Vec<_> = std::env::args().skip(1).collect();
    let seconds = arguments.get(2).map_or(Ok(f64::from(u32::MAX)), |text| text.parse::<f64>());
    let ([socket, trace] | [socket, trace, _], Ok(seconds)) = (&arguments[..], seconds) else {
        println!("usage: replay SOCKET TRACE.csv [SECONDS]");
        return ExitCode::from(2);
    };
    let Ok(most) = Duration::try_from_secs_f64(seconds) else {
        println!("replay: {seconds} s is no time to run for");
        return ExitCode::from(2);
    };
    match run(Path::new(socket), Path::new(trace), most) {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            println!("replay: {problem}");
            ExitCode::FAILURE
        }
    }
}
