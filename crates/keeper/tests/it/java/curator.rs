//! Curator's recipes.

use std::path::Path;

use menagerie_testkit::{CURATOR_JARS, JavaProgram, Keeper, ZOOKEEPER_JARS};

use super::text;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/java/Recipes.java");

/// Everything that `Recipes.java` says when all goes well.
const CLAIMS: &str = "\
ok connected
ok connected
ok mutex acquired
ok mutex excludes
ok mutex passed on
ok cache sees a creation
ok cache sees a change
ok cache sees a deletion
ok persistent node is there
ok persistent node comes back
ok persistent node goes when closed
ok latch has a leader
ok latch has one leader
ok latch passes on
ok transaction takes effect
ok transaction fails as a whole
ok container parents are made
";

#[test]
fn curators_recipes_work() {
    let recipes = JavaProgram::compile(Path::new(SOURCE), &[&ZOOKEEPER_JARS[..], &CURATOR_JARS].concat());
    let keeper = Keeper::new().start();
    let run = recipes.run(&[&keeper.address().to_string()]);
    assert_eq!(text(&run.stdout), CLAIMS, "standard error:\n{}", text(&run.stderr));
}
