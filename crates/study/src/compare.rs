//! `compare`: inputs under schemes on one set of hardware, and the remarks that stand below them.

use crate::assumed::Assumed;
use crate::error::StudyError;
use crate::options::SetupArgs;
use crate::runner::{Brought, Watch, run_all};
use crate::{flips, plan};
use forerun_sim::own::Own;
use forerun_sim::report::{Comparison, RunReport};
use forerun_sim::spec::RunSpec;
use std::path::{Path, PathBuf};

/// What is to be compared.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Trace files or workloads.
    pub inputs: Vec<String>,
    /// Schemes in the grammar of the registry; of none, a sensible set is run.
    pub schemes: Vec<String>,
    /// `none`, `bound`, `oracle` and `auto` are run too.
    pub bounds: bool,
    /// Hardware and replay.
    pub setup: SetupArgs,
}

/// Runs, and what was assumed for them.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The runs, in the order asked.
    pub specs: Vec<RunSpec>,
    /// What was left out; none where a file says all.
    pub assumed: Option<Assumed>,
}

/// What was measured, and what is remarked.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The runs.
    pub comparison: Comparison,
    /// What was assumed, and what would turn the verdict: a sentence each.
    pub remarks: Vec<String>,
}

impl Asked {
    /// The runs that this asks for; `own` are policies that schemes may name.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn plan(&self, own: &[Own]) -> Result<Planned, StudyError> {
        named_once(&self.inputs)?;
        let assumed = self.setup.assumed(&self.inputs);
        let schemes = match self.schemes.as_slice() {
            [] => plan::sensible(&self.inputs, &assumed, self.setup.skip_bad),
            named => named.to_vec(),
        };
        let specs = plan::specs(&self.inputs, &schemes, &self.setup, &assumed, self.bounds, own)?;
        Ok(Planned { specs, assumed: Some(assumed) })
    }
}

/// Refuses an input that is named twice, by whatever path: its rows would stand there twice, and look like those of two.
fn named_once(inputs: &[String]) -> Result<(), StudyError> {
    let files: Vec<Option<PathBuf>> =
        inputs.iter().map(|input| Path::new(input).canonicalize().ok()).collect();
    for (at, input) in inputs.iter().enumerate() {
        let same =
            |&before: &usize| inputs[before] == *input || (files[at].is_some() && files[before] == files[at]);
        if let Some(before) = (0..at).find(same) {
            let what = match &inputs[before] {
                before if before == input => {
                    "is named twice, and each of its runs would stand there twice".into()
                }
                before => {
                    format!("is the same file as {before}, and each of its runs would stand there twice")
                }
            };
            return Err(StudyError::usage(
                input,
                what,
                "name each input once; --repeat reads one several times",
            ));
        }
    }
    Ok(())
}

impl Planned {
    /// Whether all of it can be run, as far as that is known before.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn check(&self) -> Result<(), StudyError> {
        Ok(self.specs.iter().try_for_each(forerun_sim::run::check)?)
    }

    /// What was assumed, in a sentence; none where all was said, or nothing has run.
    #[must_use]
    pub fn assumptions(&self, runs: &[RunReport]) -> Option<String> {
        let spec = &runs.first()?.spec;
        self.assumed.as_ref()?.sentence(spec.device.text(), spec.scheduler.text())
    }

    /// The runs' outcome: with the remarks on what was assumed.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn outcome(
        &self,
        runs: Vec<RunReport>,
        threads: usize,
        brought: Brought<'_>,
        watch: &dyn Watch,
    ) -> Result<Outcome, StudyError> {
        let mut remarks: Vec<String> = self.assumptions(&runs).into_iter().collect();
        if let Some(assumed) = &self.assumed {
            remarks.extend(flips::warnings(&runs, assumed, threads, brought, watch)?);
        }
        let kernel = self.assumed.as_ref().and_then(Assumed::kernel_scheme);
        Ok(Outcome { comparison: Comparison { runs, kernel }, remarks })
    }

    /// Checks, runs, and remarks.
    ///
    /// # Errors
    /// See [`StudyError`].
    pub fn run(
        &self,
        threads: usize,
        brought: Brought<'_>,
        watch: &dyn Watch,
    ) -> Result<Outcome, StudyError> {
        self.check()?;
        let runs = run_all(&self.specs, threads, brought, watch)?;
        self.outcome(runs, threads, brought, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_named_once_by_whatever_path() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).display().to_string();
        std::fs::write(path("a"), "1").expect("written");
        std::fs::write(path("b"), "1").expect("written");
        let told = |inputs: &[String]| named_once(inputs).expect_err("twice").to_string();
        named_once(&[path("a"), path("b"), "random:size=1GiB".into(), "forward:size=1GiB".into()])
            .expect("four inputs, two of them alike");
        assert!(told(&[path("a"), path("b"), path("a")]).contains("a: is named twice"));
        assert!(told(&["random:size=1GiB".into(), "random:size=1GiB".into()]).contains("is named twice"));
        let said = told(&[path("a"), path("./a")]);
        assert!(said.contains(&format!("is the same file as {}", path("a"))), "{said}");
    }
}
