import io.kroxylicious.proxy.filter.FetchRequestFilter;
import io.kroxylicious.proxy.filter.FetchResponseFilter;
import io.kroxylicious.proxy.filter.Filter;
import io.kroxylicious.proxy.filter.FilterContext;
import io.kroxylicious.proxy.filter.FilterFactory;
import io.kroxylicious.proxy.filter.FilterFactoryContext;
import io.kroxylicious.proxy.filter.RequestFilterResult;
import io.kroxylicious.proxy.filter.ResponseFilterResult;
import io.kroxylicious.proxy.plugin.Plugin;
import java.util.concurrent.CompletionStage;
import org.apache.kafka.common.message.FetchRequestData;
import org.apache.kafka.common.message.FetchResponseData;
import org.apache.kafka.common.message.RequestHeaderData;
import org.apache.kafka.common.message.ResponseHeaderData;

/** The least a filter can do that wants to see Fetch: have it decoded, and pass it on as it is. */
@Plugin(configType = Void.class)
public final class LookAtFetches implements FilterFactory<Void, Void> {
    @Override
    public Void initialize(FilterFactoryContext context, Void nothing) {
        return null;
    }

    @Override
    public Filter createFilter(FilterFactoryContext context, Void nothing) {
        return new Look();
    }

    private static final class Look implements FetchRequestFilter, FetchResponseFilter {
        @Override
        public CompletionStage<RequestFilterResult> onFetchRequest(
                short version, RequestHeaderData header, FetchRequestData request, FilterContext context) {
            return context.forwardRequest(header, request);
        }

        @Override
        public CompletionStage<ResponseFilterResult> onFetchResponse(
                short version, ResponseHeaderData header, FetchResponseData response, FilterContext context) {
            return context.forwardResponse(header, response);
        }
    }
}
