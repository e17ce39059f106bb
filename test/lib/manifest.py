#!/usr/bin/env python3
"""manifest.py FILE: do the manifests of a file fit together, and say what the library needs?"""
import sys
import yaml

problems = []


def need(condition, text):
    if not condition:
        problems.append(text)


def pod(spec, manifests):
    """A pod: what is mounted is a volume of it, and LD_PRELOAD lies on one."""
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    configs = [m["metadata"]["name"] for m in manifests if m["kind"] == "ConfigMap"]
    claims = [m["metadata"]["name"] for m in manifests if m["kind"] == "PersistentVolumeClaim"]
    used = set()
    for container in spec.get("initContainers", []) + spec["containers"]:
        for mount in container.get("volumeMounts", []):
            need(mount["name"] in volumes, "no volume " + mount["name"])
            used.add(mount["name"])
    need(used == set(volumes), "volumes that nothing mounts: %s" % (set(volumes) - used))
    for volume in volumes.values():
        need(volume.get("configMap", {"name": configs[0]})["name"] in configs, "no ConfigMap for " + volume["name"])
        need(volume.get("persistentVolumeClaim", {"claimName": claims[0]})["claimName"] in claims, "no claim for " + volume["name"])
    for container in spec["containers"]:
        places = [mount["mountPath"] for mount in container["volumeMounts"]]
        environment = {entry["name"]: entry.get("value", "") for entry in container["env"]}
        need(environment.get("LD_PRELOAD", "").rpartition("/")[0] in places, "LD_PRELOAD is on no volume")
        need("/dev/shm" in places or environment.get("DIRECTNFS_RUN", "").rpartition("/")[0] in places, "no run directory")
        for name in configs:
            table = next(m for m in manifests if m["kind"] == "ConfigMap" and m["metadata"]["name"] == name)["data"].get("nfstab")
            need(not table or table.split("mount:")[1].split()[0] in places, "the mount of the nfstab is not mounted")
    for container in spec.get("initContainers", []):
        need("LD_PRELOAD" not in [entry["name"] for entry in container.get("env", [])], "LD_PRELOAD for an init container")


def main():
    with open(sys.argv[1], encoding="utf-8") as text:
        manifests = list(yaml.safe_load_all(text))
    kinds = {manifest["kind"]: manifest for manifest in manifests}
    if "StatefulSet" in kinds:
        spec = kinds["StatefulSet"]["spec"]
        need(spec["replicas"] == 1, "two pods would have one directory")
        need(spec["selector"]["matchLabels"] == spec["template"]["metadata"]["labels"], "the selector finds no pod")
        need(spec["serviceName"] == kinds["Service"]["metadata"]["name"], "no service")
        need("vers=3" in kinds["PersistentVolume"]["spec"]["mountOptions"], "not NFS version 3")
        pod(spec["template"]["spec"], manifests)
    else:
        spec = kinds["Cluster"]["spec"]
        projected = spec["projectedVolumeTemplate"]["sources"][0]["configMap"]
        need(projected["name"] == kinds["ConfigMap"]["metadata"]["name"], "no ConfigMap")
        need(all(item["key"] in kinds["ConfigMap"]["data"] for item in projected["items"]), "a key that the ConfigMap lacks")
        need("vers=3" in kinds["StorageClass"]["mountOptions"], "not NFS version 3")
        need(spec["storage"]["storageClass"] == kinds["StorageClass"]["metadata"]["name"], "no storage class")
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)


main()
