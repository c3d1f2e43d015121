import java.util.concurrent.CountDownLatch;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.retry.RetryForever;

/** Contends with Curator's InterProcessMutex: says held once it holds, lets go on SIGTERM, and says released. */
public class Contender {
    public static void main(String[] args) throws Exception {
        CuratorFramework client = CuratorFrameworkFactory.builder()
            .connectString(args[0])
            .sessionTimeoutMs(4000)
            .connectionTimeoutMs(4000)
            .retryPolicy(new RetryForever(100))
            // Without a word of its own, a contender says what the client's default is.
            .defaultData(args[2].getBytes())
            .build();
        client.start();
        CountDownLatch letGo = new CountDownLatch(1);
        Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            letGo.countDown();
            try {
                main.join();
            } catch (InterruptedException e) {
                // The process ends anyway.
            }
        }));
        InterProcessMutex mutex = new InterProcessMutex(client, args[1]);
        mutex.acquire();
        System.out.println("held");
        letGo.await();
        mutex.release();
        System.out.println("released");
        client.close();
    }
}
