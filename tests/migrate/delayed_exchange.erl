%% Stands in for the delayed-message plugin in tests, as that is in no registry of packages. It registers the exchange
%% type x-delayed-message in a running node of RabbitMQ 3.10, holds messages in processes, and counts them as
%% messages_delayed. It has what docs/migrating.md says was measured with the plugin, and no more.
-module(delayed_exchange).
-behaviour(rabbit_exchange_type).

-include_lib("rabbit_common/include/rabbit.hrl").
-include_lib("rabbit_common/include/rabbit_framing.hrl").

-export([on/0, off/0]).
-export([description/0, serialise_events/0, route/2, validate/1, validate_binding/2, create/2, delete/3,
         policy_changed/2, add_binding/3, remove_bindings/3, assert_args_equivalence/2, info/1, info/2]).

-define(TYPE, <<"x-delayed-message">>).

on() ->
    case ets:whereis(?MODULE) of
        undefined ->
            Self = self(),
            spawn(fun() -> ets:new(?MODULE, [named_table, public]), Self ! made, receive stop -> ok end end),
            receive made -> ok end;
        _ -> ok
    end,
    rabbit_registry:register(exchange, ?TYPE, ?MODULE).

off() -> rabbit_registry:unregister(exchange, ?TYPE).

description() -> [{name, ?TYPE}, {description, <<"A stand-in for tests">>}].
serialise_events() -> false.

route(X = #exchange{name = Name}, Delivery = #delivery{message = #basic_message{content = Content}}) ->
    case delay(Content) of
        Delay when Delay > 0, Delay =< 4294967295 ->
            count(Name, 1),
            spawn(fun() -> timer:sleep(Delay), deliver(X, negated(Delivery, Delay)) end),
            [];
        _ -> (plain(X)):route(X, Delivery)
    end.

delay(Content) ->
    case rabbit_basic:extract_headers(Content) of
        undefined -> 0;
        Headers ->
            case rabbit_misc:table_lookup(Headers, <<"x-delay">>) of
                {longstr, Text} -> binary_to_integer(Text);
                {_, Number} when is_integer(Number) -> Number;
                _ -> 0
            end
    end.

%% The encoded properties stay as they were. A classic queue delivers these, a quorum queue encodes the changed ones.
negated(Delivery = #delivery{message = Message = #basic_message{content = Content}}, Delay) ->
    Encoded = (rabbit_binary_generator:ensure_content_encoded(
                 Content, rabbit_framing_amqp_0_9_1))#content.properties_bin,
    Changed = (rabbit_basic:map_headers(
                 fun(Headers) -> rabbit_misc:set_table_value(Headers, <<"x-delay">>, signedint, -Delay) end,
                 Content))#content{properties_bin = Encoded, protocol = rabbit_framing_amqp_0_9_1},
    Delivery#delivery{message = Message#basic_message{content = Changed}, confirm = false, mandatory = false}.

%% By the exchange as it was at the publish, whose type looks up the bindings of its name as they are now. There is no
%% error and no return if there are none: the message is lost.
deliver(X = #exchange{name = Name}, Delivery) ->
    Queues = rabbit_amqqueue:lookup(rabbit_exchange:route(X, Delivery)),
    rabbit_amqqueue:deliver(Queues, Delivery),
    count(Name, -1).

count(Name, Change) -> ets:update_counter(?MODULE, Name, Change, {Name, 0}).

info(#exchange{name = Name}) ->
    Held = case ets:lookup(?MODULE, Name) of [{_, Count}] -> Count; [] -> 0 end,
    [{messages_delayed, Held}].
info(X, Items) -> [One || One = {Item, _} <- info(X), lists:member(Item, Items)].

validate(X) -> (plain(X)):validate(X).
validate_binding(X, B) -> (plain(X)):validate_binding(X, B).
create(Tx, X) -> (plain(X)):create(Tx, X).
delete(Tx, X, Bs) -> (plain(X)):delete(Tx, X, Bs).
policy_changed(X, Y) -> (plain(X)):policy_changed(X, Y).
add_binding(Tx, X, B) -> (plain(X)):add_binding(Tx, X, B).
remove_bindings(Tx, X, Bs) -> (plain(X)):remove_bindings(Tx, X, Bs).
assert_args_equivalence(X, Args) -> rabbit_exchange:assert_args_equivalence(X, Args).

plain(#exchange{arguments = Arguments}) ->
    {longstr, Type} = rabbit_misc:table_lookup(Arguments, <<"x-delayed-type">>),
    {ok, Module} = rabbit_registry:lookup_module(exchange, rabbit_registry:binary_to_type(Type)),
    Module.
