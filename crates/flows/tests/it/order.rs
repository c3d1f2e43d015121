//! Sequential tasks keep the order of their input.

use menagerie_flows::client::Ended;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_sequential_tasks_with_one_peer_keep_the_order() {
    for (segments, batch) in [(10, 1), (100, 10), (1_000, 100), (15_000, 1_320)] {
        let world = World::new("order");
        let lines: Vec<String> = (0..segments).map(|n| format!("{{\"n\":{n}}}")).collect();
        world.write("a.jsonl", lines.clone());
        let settings = format!("consumption = \"sequential\"\nbatch_size = {batch}\n");
        let pass = "[[catalog]]\nname = \"pass\"\ntype = \"transformer\"\nbuiltin = \"identity\"\n";
        let mut job = world.job(r#"[["read", "pass"], ["pass", "write"]]"#, &format!("{pass}{settings}"));
        let sequential = job.catalog[2].clone();
        for entry in &mut job.catalog {
            (entry.consumption, entry.batch_size) = (sequential.consumption, sequential.batch_size);
        }
        let session = world.session().await;
        let coordinator = world.coordinator(&session, world.journals()).await;
        let peers = world.peers(1, &world.journals()).await;
        let id = world.submit(&session, &job).await;
        assert_eq!(world.wait(&session, &id).await, Ended::Complete);
        assert_eq!(world.written(), lines, "{segments} segments in batches of {batch}");
        drop((coordinator, peers));
    }
}
