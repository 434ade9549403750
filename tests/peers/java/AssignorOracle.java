// Assigns partitions as Kafka's server-side assignors do. One group a line, fields divided by tabs:
//   assignor, true when all members want the same topics, topics, members
//   topics:  number:partitions, divided by spaces; the number is the topic's id
//   members: id|instance id or nothing|wanted topics|topic:partition,partition;... divided by spaces, sorted by id
// The answer: id|topic:partition,partition;... divided by spaces, sorted; or ERROR.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.api.assignor.MemberAssignment;
import org.apache.kafka.coordinator.group.api.assignor.PartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.assignor.RangeAssignor;
import org.apache.kafka.coordinator.group.assignor.UniformAssignor;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

public class AssignorOracle {
    static String[] split(String text, String by) {
        return text.isEmpty() ? new String[0] : text.split(by);
    }

    static Uuid topic(String number) {
        return new Uuid(0, Long.parseLong(number));
    }

    static SubscribedTopicDescriber topics(String text) {
        Map<Uuid, Integer> counts = new HashMap<>();
        for (String one : split(text, " ")) {
            counts.put(topic(one.split(":")[0]), Integer.parseInt(one.split(":")[1]));
        }
        return new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topicId) {
                return counts.getOrDefault(topicId, -1);
            }

            public Set<String> racksForPartition(Uuid topicId, int partition) {
                return Set.of();
            }
        };
    }

    static String answer(String[] f) {
        PartitionAssignor assignor = f[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (String one : split(f[3], " ")) {
            String[] m = one.split("\\|", -1);
            Set<Uuid> wanted = new LinkedHashSet<>();
            for (String number : split(m[2], ",")) {
                wanted.add(topic(number));
            }
            Map<Uuid, Set<Integer>> has = new LinkedHashMap<>();
            for (String run : split(m[3], ";")) {
                Uuid id = topic(run.split(":")[0]);
                for (String partition : run.split(":")[1].split(",")) {
                    has.computeIfAbsent(id, x -> new TreeSet<>()).add(Integer.parseInt(partition));
                    owners.computeIfAbsent(id, x -> new HashMap<>()).put(Integer.parseInt(partition), m[0]);
                }
            }
            Optional<String> instance = m[1].isEmpty() ? Optional.empty() : Optional.of(m[1]);
            members.put(
                m[0], new MemberSubscriptionAndAssignmentImpl(Optional.empty(), instance, wanted, new Assignment(has)));
        }
        SubscriptionType type =
            f[1].equals("true") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        try {
            return shown(assignor.assign(new GroupSpecImpl(members, type, owners), topics(f[2])));
        } catch (Exception e) {
            return "ERROR";
        }
    }

    static String shown(GroupAssignment assignment) {
        List<String> lines = new ArrayList<>();
        for (Map.Entry<String, MemberAssignment> member : new TreeMap<>(assignment.members()).entrySet()) {
            Map<Long, Set<Integer>> byTopic = new TreeMap<>();
            member.getValue().partitions().forEach(
                (id, partitions) -> byTopic.put(id.getLeastSignificantBits(), new TreeSet<>(partitions)));
            List<String> runs = new ArrayList<>();
            byTopic.forEach((number, partitions) -> runs.add(
                number + ":" + String.join(",", partitions.stream().map(String::valueOf).toList())));
            lines.add(member.getKey() + "|" + String.join(";", runs));
        }
        return String.join(" ", lines);
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            out.println(answer(line.split("\t", -1)));
        }
    }
}
