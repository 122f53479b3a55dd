//! Writes of ranges of bytes reach an engine in whole blocks as if each had been done when it came.

mod support;

use proptest::prelude::*;
use support::assembly::run;

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, max_shrink_iters: 64, ..ProptestConfig::default() })]

    #[test]
    fn writes_of_parts_of_blocks_end_as_if_each_was_done_when_it_came(seed in 0_u64..1 << 48) {
        prop_assert_eq!(run(seed), Ok(()));
    }
}
