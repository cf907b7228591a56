//! Functions of many calls that call themselves, as tree walkers and parsers do: it prints how many bytes
//! of stack each takes for one level. Nothing but what the attribute adds may differ between its builds.
#![deny(warnings)]

use std::hint::black_box;
use std::ops::ControlFlow;

/// Levels of a recursion.
const DEPTH: usize = 1000;

macro_rules! tree {
    ($($variant:ident $method:ident),*) => {
        #[allow(dead_code, reason = "one variant is enough to go down")]
        enum Tree {
            $($variant(Box<Tree>),)*
            Leaf,
        }

        /// What is called for each variant; the results come in two registers.
        trait Visitor<'a> {
            fn leaf(&mut self) -> ControlFlow<&'a str>;
            $(fn $method(&mut self, tree: &'a Tree) -> ControlFlow<&'a str> {
                tree.visit(self)
            })*
            fn step(&mut self, tree: &'a Tree) -> ControlFlow<&'a str> {
                tree.visit_in_steps(self)
            }
        }
    };
}

tree!(
    A a, B b, C c, D d, E e, F f, G g, H h, I i, J j, K k, L l, M m, N n, O o, P p, Q q, R r, S s, T t
);

impl Tree {
    #[cfg_attr(feature = "traced", fdr::traced)]
    fn visit<'a, V: Visitor<'a> + ?Sized>(&'a self, visitor: &mut V) -> ControlFlow<&'a str> {
        match self {
            Self::A(tree) => visitor.a(tree),
            Self::B(tree) => visitor.b(tree),
            Self::C(tree) => visitor.c(tree),
            Self::D(tree) => visitor.d(tree),
            Self::E(tree) => visitor.e(tree),
            Self::F(tree) => visitor.f(tree),
            Self::G(tree) => visitor.g(tree),
            Self::H(tree) => visitor.h(tree),
            Self::I(tree) => visitor.i(tree),
            Self::J(tree) => visitor.j(tree),
            Self::K(tree) => visitor.k(tree),
            Self::L(tree) => visitor.l(tree),
            Self::M(tree) => visitor.m(tree),
            Self::N(tree) => visitor.n(tree),
            Self::O(tree) => visitor.o(tree),
            Self::P(tree) => visitor.p(tree),
            Self::Q(tree) => visitor.q(tree),
            Self::R(tree) => visitor.r(tree),
            Self::S(tree) => visitor.s(tree),
            Self::T(tree) => visitor.t(tree),
            Self::Leaf => visitor.leaf(),
        }
    }

    #[cfg_attr(feature = "traced", fdr::traced)]
    fn visit_in_steps<'a, V: Visitor<'a> + ?Sized>(
        &'a self,
        visitor: &mut V,
    ) -> ControlFlow<&'a str> {
        let Self::A(tree) = self else {
            return visitor.leaf();
        };
        visitor.step(tree)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        visitor.step(&Self::Leaf)?;
        ControlFlow::Continue(())
    }
}

/// Where the stack is at the deepest leaf.
struct Deepest(usize);

impl<'a> Visitor<'a> for Deepest {
    fn leaf(&mut self) -> ControlFlow<&'a str> {
        let here = 0_u8;
        self.0 = self.0.min(black_box(&raw const here).addr());
        ControlFlow::Continue(())
    }
}

/// Bytes of stack for a level.
fn per_level(visit: impl for<'a> Fn(&'a Tree, &mut Deepest) -> ControlFlow<&'a str>) -> usize {
    let mut tree = Tree::Leaf;
    let mut levels = [0, DEPTH].into_iter().map(|depth| {
        for _ in 0..depth {
            tree = Tree::A(Box::new(std::mem::replace(&mut tree, Tree::Leaf)));
        }
        let mut deepest = Deepest(usize::MAX);
        assert!(visit(&tree, &mut deepest).is_continue());
        deepest.0
    });
    let (first, last) = (
        levels.next().expect("a level"),
        levels.next().expect("a level"),
    );
    (first - last) / DEPTH
}

fn main() {
    println!("match {}", per_level(|tree, deepest| tree.visit(deepest)));
    println!(
        "steps {}",
        per_level(|tree, deepest| tree.visit_in_steps(deepest))
    );
}
