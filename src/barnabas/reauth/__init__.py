"""The re-authentication kit (KIP-368): how a Kafka client behaves when its sessions end, judged by what a node sees."""
