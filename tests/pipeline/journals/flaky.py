"""File systems for tests: one that fails when a test says so, the local one under `flaky:/` with Java's own exceptions,
and one that is met as an object store is, `s3a://bucket/`, with nothing but Hadoop's interface in between: its lists
are arrays of a class of its own, as S3A's are.

Compiled in the JVM of the session by Janino, which Spark brings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEME = "flaky"
BUCKET = "s3a://bucket"
_SOURCE = """
import java.io.IOException;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.fs.*;

public class FlakyFileSystem extends RawLocalFileSystem {
  public static final Map left = new ConcurrentHashMap();

  public String getScheme() { return "flaky"; }
  public java.net.URI getUri() { return java.net.URI.create("flaky:///"); }

  public FSDataInputStream open(Path path, int size) throws IOException {
    return new FSDataInputStream(new Stream(super.open(path, size), path.getName()));
  }

  static class Stream extends FSInputStream {
    private final FSDataInputStream in;
    private final String name;
    Stream(FSDataInputStream in, String name) { this.in = in; this.name = name; }
    public void seek(long at) throws IOException { in.seek(at); }
    public long getPos() throws IOException { return in.getPos(); }
    public boolean seekToNewSource(long at) { return false; }
    public int read() throws IOException { byte[] one = new byte[1]; return read(one, 0, 1) < 0 ? -1 : one[0] & 255; }
    public int read(byte[] into, int from, int size) throws IOException {
      if (in.getPos() > 0) strike();
      return in.read(into, from, Math.min(size, 1000));
    }
    public void close() throws IOException { in.close(); }

    private void strike() throws IOException {
      for (Object each : left.entrySet()) {
        Map.Entry one = (Map.Entry) each;
        int times = ((Integer) one.getValue()).intValue();
        if (times > 0 && name.contains((String) one.getKey())) {
          one.setValue(Integer.valueOf(times - 1));
          throw new java.net.SocketTimeoutException("Read timed out");
        }
      }
    }
  }
}
"""


_STORE = """
import java.io.IOException;
import org.apache.hadoop.fs.*;

public class StoreFileSystem extends RawLocalFileSystem {
  public String getScheme() { return "s3a"; }
  public java.net.URI getUri() { return java.net.URI.create("s3a://bucket"); }
  public boolean rename(Path from, Path to) throws IOException {
    if (exists(to)) throw new FileAlreadyExistsException(to.toString());
    return super.rename(from, to);
  }
  public FileStatus[] listStatus(Path path) throws IOException {
    FileStatus[] found = super.listStatus(path);
    FileStatus[] own = new StoreFileStatus[found.length];
    for (int at = 0; at < found.length; at++) own[at] = new StoreFileStatus(found[at]);
    return own;
  }
  static class StoreFileStatus extends FileStatus {
    StoreFileStatus(FileStatus from) {
      super(from.getLen(), from.isDirectory(), 1, 1, from.getModificationTime(), from.getPath());
    }
  }
}
"""


def flaky(spark: SparkSession) -> dict[str, int]:
    """Have the file system, and return how often reads of files with such a name fail once 1000 bytes are read."""
    made = _registered(spark, _SOURCE, "FlakyFileSystem", f"{SCHEME}:/")
    left: dict[str, int] = made.getClass().getField("left").get(None)
    return left


def object_store(spark: SparkSession) -> str:
    """Have the store; return its root, below which paths are those of this machine."""
    _registered(spark, _STORE, "StoreFileSystem", f"{BUCKET}/")
    return BUCKET


def _registered(spark: SparkSession, source: str, name: str, root: str) -> Any:
    jvm: Any = spark._jvm
    context: Any = spark._jsc
    configuration = context.hadoopConfiguration()
    before = configuration.getClassLoader()
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    configuration.setClassLoader(compiler.getClassLoader())
    configuration.set(f"fs.{root.partition(':')[0]}.impl", name)
    # Made once, it is in Hadoop's cache, where tasks find it as well.
    made = jvm.org.apache.hadoop.fs.Path(root).getFileSystem(configuration)
    configuration.setClassLoader(before)
    return made
