//! The attributes of Kani where Kani is not: a harness becomes a test that runs often, with other values each time.

use proc_macro::{TokenStream, TokenTree};

/// A harness: a test of its name around it, where tests are compiled.
#[proc_macro_attribute]
pub fn proof(_: TokenStream, harness: TokenStream) -> TokenStream {
    let mut tokens = harness.clone().into_iter();
    let is_fn = |token: &TokenTree| matches!(token, TokenTree::Ident(word) if word.to_string() == "fn");
    let name = tokens.by_ref().find(is_fn).and_then(|_| tokens.next()).expect("a harness is a function");
    let around = format!("#[allow(dead_code)] #[cfg_attr(test, test)] fn {name}() {{ {harness} ::kani::often({name}) }}");
    around.parse().expect("a function around a function")
}

/// How often a loop is unrolled: nothing here.
#[proc_macro_attribute]
pub fn unwind(_: TokenStream, harness: TokenStream) -> TokenStream {
    harness
}
