import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.CuratorCacheListener;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.retry.RetryOneTime;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.apache.zookeeper.data.Stat;

/** Curator's recipes against the server named by the first argument. Says "ok" and what worked, one line each. */
public class Recipes {
    static final long SECONDS = 60;

    public static void main(String[] args) throws Exception {
        try (CuratorFramework one = connect(args[0]); CuratorFramework two = connect(args[0])) {
            mutex(one, two);
            cache(one, two);
            persistentNode(one, two);
            leaderLatch(one, two);
            transaction(one);
            containers(one);
        }
    }

    /** With the ensemble tracker, which reads and watches /zookeeper/config, as by default. */
    static CuratorFramework connect(String address) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.newClient(address, new RetryOneTime(100));
        client.start();
        check(client.blockUntilConnected((int) SECONDS, TimeUnit.SECONDS), "connected");
        return client;
    }

    static void mutex(CuratorFramework one, CuratorFramework two) throws Exception {
        InterProcessMutex first = new InterProcessMutex(one, "/mutex");
        InterProcessMutex second = new InterProcessMutex(two, "/mutex");
        check(first.acquire(SECONDS, TimeUnit.SECONDS), "mutex acquired");
        check(!second.acquire(1, TimeUnit.MILLISECONDS), "mutex excludes");
        first.release();
        check(second.acquire(SECONDS, TimeUnit.SECONDS), "mutex passed on");
        second.release();
    }

    static void cache(CuratorFramework one, CuratorFramework two) throws Exception {
        CountDownLatch created = new CountDownLatch(1);
        CountDownLatch changed = new CountDownLatch(1);
        CountDownLatch deleted = new CountDownLatch(1);
        CuratorCache cache = CuratorCache.build(one, "/cache");
        CuratorCacheListener listener = CuratorCacheListener.builder()
            .forCreates(node -> count(node.getPath(), created))
            .forChanges((before, after) -> count(after.getPath(), changed))
            .forDeletes(node -> count(node.getPath(), deleted))
            .build();
        cache.listenable().addListener(listener);
        cache.start();
        two.create().creatingParentsIfNeeded().forPath("/cache/deep/znode", "1".getBytes());
        check(created.await(SECONDS, TimeUnit.SECONDS), "cache sees a creation");
        two.setData().forPath("/cache/deep/znode", "2".getBytes());
        check(changed.await(SECONDS, TimeUnit.SECONDS), "cache sees a change");
        two.delete().forPath("/cache/deep/znode");
        check(deleted.await(SECONDS, TimeUnit.SECONDS), "cache sees a deletion");
        cache.close();
    }

    static void count(String path, CountDownLatch latch) {
        if (path.equals("/cache/deep/znode")) {
            latch.countDown();
        }
    }

    static void persistentNode(CuratorFramework one, CuratorFramework two) throws Exception {
        PersistentNode node = new PersistentNode(one, CreateMode.EPHEMERAL, false, "/persistent", new byte[0]);
        CountDownLatch made = new CountDownLatch(2);
        node.getListenable().addListener(path -> made.countDown());
        node.start();
        check(node.waitForInitialCreate(SECONDS, TimeUnit.SECONDS), "persistent node is there");
        two.delete().forPath("/persistent");
        check(made.await(SECONDS, TimeUnit.SECONDS), "persistent node comes back");
        node.close();
        check(two.checkExists().forPath("/persistent") == null, "persistent node goes when closed");
    }

    static void leaderLatch(CuratorFramework one, CuratorFramework two) throws Exception {
        LeaderLatch first = new LeaderLatch(one, "/latch", "first");
        first.start();
        check(first.await(SECONDS, TimeUnit.SECONDS), "latch has a leader");
        LeaderLatch second = new LeaderLatch(two, "/latch", "second");
        second.start();
        check(second.getLeader().getId().equals("first") && !second.hasLeadership(), "latch has one leader");
        first.close();
        check(second.await(SECONDS, TimeUnit.SECONDS), "latch passes on");
        second.close();
    }

    static void transaction(CuratorFramework one) throws Exception {
        one.transaction().forOperations(
            one.transactionOp().create().forPath("/transaction", "1".getBytes()),
            one.transactionOp().setData().withVersion(0).forPath("/transaction", "2".getBytes()),
            one.transactionOp().check().withVersion(1).forPath("/transaction"));
        check(new String(one.getData().forPath("/transaction")).equals("2"), "transaction takes effect");
        try {
            one.transaction().forOperations(
                one.transactionOp().delete().forPath("/transaction"),
                one.transactionOp().check().forPath("/missing"));
            check(false, "transaction that must fail");
        } catch (KeeperException.NoNodeException expected) {
            check(one.checkExists().forPath("/transaction") != null, "transaction fails as a whole");
        }
    }

    static void containers(CuratorFramework one) throws Exception {
        one.create().creatingParentContainersIfNeeded().forPath("/container/child");
        Stat stat = new Stat();
        one.getData().storingStatIn(stat).forPath("/container");
        check(stat.getEphemeralOwner() == 0 && stat.getNumChildren() == 1, "container parents are made");
    }

    static void check(boolean holds, String what) {
        if (!holds) {
            System.out.println("FAILED " + what);
            System.exit(1);
        }
        System.out.println("ok " + what);
    }
}
