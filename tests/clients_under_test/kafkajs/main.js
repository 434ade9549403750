// kafkajs: writes 0, 1, 2, ... as the environment of `barnabas reauth-check` says.
const { Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({
  brokers: [process.env.REAUTH_BOOTSTRAP],
  sasl: {
    mechanism: process.env.REAUTH_MECHANISM.toLowerCase(),
    username: process.env.REAUTH_USERNAME,
    password: process.env.REAUTH_PASSWORD,
  },
  reauthenticationThreshold: 500, // ms before the end; its own 10,000 ask for sessions that last longer than that
  logLevel: logLevel.WARN,
});

function end(error) {
  console.error("not delivered:", error);
  process.exit(1);
}

async function main() {
  const producer = kafka.producer();
  await producer.connect();
  let number = 0;
  for (;;) {
    const told = producer.send({ topic: process.env.REAUTH_TOPIC, acks: -1, messages: [{ value: String(number) }] });
    told.catch(end);
    number += 1;
    await new Promise((done) => setTimeout(done, 20));
  }
}

main().catch(end);
