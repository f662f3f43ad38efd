#!/bin/bash
# Spark names what a pod of its own is to be: `driver` and what spark-submit is told, or `executor`, which finds
# everything in its environment. Whatever else it is given is a command: `python -m pipeline ...` on this pod alone.
set -euo pipefail

case "${1:-}" in
driver)
    shift
    exec "$SPARK_HOME/bin/spark-submit" --deploy-mode client \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" "$@"
    ;;
executor)
    options=()
    while name="SPARK_JAVA_OPT_${#options[@]}" && [ -n "${!name+set}" ]; do
        options+=("${!name}")
    done
    # No place is left empty: Java would take it for the directory it is started in.
    classes="${SPARK_CONF_DIR:+$SPARK_CONF_DIR:}${SPARK_EXTRA_CLASSPATH:+$SPARK_EXTRA_CLASSPATH:}$SPARK_HOME/jars/*"
    exec java "${options[@]}" "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "$classes${SPARK_DIST_CLASSPATH:+:$SPARK_DIST_CLASSPATH}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --app-id "$SPARK_APPLICATION_ID" \
        --executor-id "$SPARK_EXECUTOR_ID" --cores "$SPARK_EXECUTOR_CORES" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --podName "$SPARK_EXECUTOR_POD_NAME" \
        --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID"
    ;;
*)
    exec "$@"
    ;;
esac
