import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.config.Configuration;
import io.kroxylicious.proxy.config.ServiceBasedPluginFactoryRegistry;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Starts the proxy from the one configuration file that it is given. */
public final class Launcher {
    public static void main(String[] arguments) throws Exception {
        Configuration configuration = new ConfigParser().parseConfiguration(Files.readString(Path.of(arguments[0])));
        try (KafkaProxy proxy =
                new KafkaProxy(new ServiceBasedPluginFactoryRegistry(), configuration, Features.defaultFeatures())) {
            proxy.startup().block();
        }
    }
}
