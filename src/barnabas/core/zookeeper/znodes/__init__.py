"""The znodes of Apache Kafka 3.9 as records of the metadata log, and what a change of the metadata makes of them.

A module a topic of the metadata: each says where its znodes lie, reads them into records, and writes what an image
holds. `reading` puts a tree of znodes together to the records of a whole image; `projection` gives the changes of
znodes that a delta means. Everything is pure: whoever talks to ZooKeeper brings the bytes.
"""
