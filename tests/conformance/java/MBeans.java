import java.util.TreeSet;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanServerConnection;
import javax.management.ObjectName;
import javax.management.remote.JMXConnector;
import javax.management.remote.JMXConnectorFactory;
import javax.management.remote.JMXServiceURL;

/** Prints what JVMs show of Kafka's MBeans, one a line: port, name, attribute=value, tabs between them. */
public final class MBeans {
    public static void main(String[] ports) throws Exception {
        for (String port : ports) {
            JMXServiceURL url = new JMXServiceURL("service:jmx:rmi:///jndi/rmi://127.0.0.1:" + port + "/jmxrmi");
            try (JMXConnector connector = JMXConnectorFactory.connect(url)) {
                MBeanServerConnection server = connector.getMBeanServerConnection();
                for (ObjectName name : new TreeSet<>(server.queryNames(new ObjectName("kafka.*:*"), null))) {
                    StringBuilder line = new StringBuilder(port + "\t" + name.getCanonicalName());
                    for (MBeanAttributeInfo attribute : server.getMBeanInfo(name).getAttributes())
                        line.append('\t').append(attribute.getName()).append('=').append(value(server, name, attribute));
                    System.out.println(line);
                }
            }
        }
    }

    /** A gauge may fail, for example when what it reads of is just being closed. */
    private static String value(MBeanServerConnection server, ObjectName name, MBeanAttributeInfo attribute) {
        try {
            return String.valueOf(server.getAttribute(name, attribute.getName())).replaceAll("\\s", " ");
        } catch (Exception e) {
            return "?";
        }
    }
}
