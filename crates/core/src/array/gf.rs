//! The field GF(2^8) that RAID-6's Q lives in: just enough of it to compute coefficients.
//!
//! Q = Σ g^i · D_i with g = 2 and the polynomial x^8+x^4+x^3+x^2+1 (0x11d), as Linux md and "The mathematics of
//! RAID-6" (H. P. Anvin) define them, so a Q computed by our hosts is md's Q. Plans are made here, so only single
//! elements are multiplied; a host that runs a plan over blocks brings its own wide kernels and may use
//! [`mul`] to build their tables. Addition is XOR.

/// x^8 + x^4 + x^3 + x^2 + 1 without its highest term.
const POLYNOMIAL: u8 = 0x1d;
/// Elements other than zero; the powers of g repeat after so many.
const ORDER: usize = 255;

/// Powers and logarithms to the base g = 2.
struct Tables {
    exp: [u8; ORDER],
    log: [u8; ORDER + 1],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut tables = Tables { exp: [0; ORDER], log: [0; ORDER + 1] };
    let mut element: u8 = 1;
    let mut power = 0;
    while power < ORDER {
        tables.exp[power] = element;
        tables.log[element as usize] = power as u8;
        let carry = element & 0x80 != 0;
        element <<= 1;
        if carry {
            element ^= POLYNOMIAL;
        }
        power += 1;
    }
    tables
}

/// g^`power`: the factor of data strip number `power` in Q.
#[must_use]
pub fn exp(power: u64) -> u8 {
    TABLES.exp[(power % ORDER as u64) as usize]
}

/// The product of two elements.
#[must_use]
pub fn mul(a: u8, b: u8) -> u8 {
    if a == 0 || b == 0 {
        return 0;
    }
    let sum = usize::from(TABLES.log[usize::from(a)]) + usize::from(TABLES.log[usize::from(b)]);
    TABLES.exp[sum % ORDER]
}

/// The element whose product with `a` is one.
///
/// # Panics
/// When `a` is zero, which has no inverse.
#[must_use]
pub fn inv(a: u8) -> u8 {
    assert!(a != 0, "zero has no inverse");
    TABLES.exp[(ORDER - usize::from(TABLES.log[usize::from(a)])) % ORDER]
}

/// What must hold of the field, for any elements: the tests below go through all of them, and a verifier proves it.
#[cfg(any(test, kani))]
pub(in crate::array) mod properties {
    use super::*;

    /// Multiplication by shifting and adding, as on paper: the model that the tables are held against.
    pub(in crate::array) fn slow_mul(mut a: u8, mut b: u8) -> u8 {
        let mut product = 0;
        while b != 0 {
            if b & 1 != 0 {
                product ^= a;
            }
            a = (a << 1) ^ if a & 0x80 != 0 { POLYNOMIAL } else { 0 };
            b >>= 1;
        }
        product
    }

    pub(super) fn a_product_is_the_one_on_paper(a: u8, b: u8) {
        assert_eq!(mul(a, b), slow_mul(a, b), "{a} * {b}");
    }

    pub(super) fn a_product_of_a_sum_is_the_sum_of_products(a: u8, b: u8, c: u8) {
        assert_eq!(mul(a, b ^ c), mul(a, b) ^ mul(a, c), "{a} * ({b} + {c})");
    }

    pub(super) fn an_inverse_undoes(a: u8) {
        assert!(a == 0 || mul(a, inv(a)) == 1, "{a}");
    }

    pub(super) fn powers_repeat_after_255_and_not_before(one: u8, other: u8) {
        let (one, other) = (u64::from(one), u64::from(other));
        assert_eq!(exp(one) == exp(other), one % 255 == other % 255, "2^{one} and 2^{other}");
    }
}

#[cfg(test)]
mod tests {
    use super::properties::*;

    #[test]
    fn the_tables_agree_with_multiplication_on_paper() {
        for (a, b) in (0..=255).flat_map(|a| (0..=255).map(move |b| (a, b))) {
            a_product_is_the_one_on_paper(a, b);
            for c in 0..=255 {
                a_product_of_a_sum_is_the_sum_of_products(a, b, c);
            }
        }
    }

    #[test]
    fn every_element_but_zero_has_an_inverse_and_is_a_power_of_two() {
        for a in 0..=255 {
            an_inverse_undoes(a);
            for b in 0..=255 {
                powers_repeat_after_255_and_not_before(a, b);
            }
        }
    }
}

#[cfg(kani)]
mod proofs {
    use super::properties::*;
    use kani::any;

    #[kani::proof]
    #[kani::unwind(9)]
    fn products() {
        a_product_is_the_one_on_paper(any(), any());
    }

    #[kani::proof]
    fn sums() {
        a_product_of_a_sum_is_the_sum_of_products(any(), any(), any());
    }

    #[kani::proof]
    fn inverses() {
        an_inverse_undoes(any());
    }

    #[kani::proof]
    fn powers() {
        powers_repeat_after_255_and_not_before(any(), any());
    }
}
