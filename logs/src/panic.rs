//! One line for a panic, then the end: a process with a dead task would look alive to some and not to others.

/// From now on a panic is told in one error line, with what it costs, and the process aborts; `last` is what the thread that
/// panics does before that. The service manager starts it again.
pub fn abort_on_panic(cost: &'static str, last: fn()) {
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("unnamed").to_owned();
        let place = info.location().map(ToString::to_string).unwrap_or_default();
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        let backtrace = std::backtrace::Backtrace::force_capture();
        tracing::error!(
            event = "panic",
            thread = name,
            place,
            cost,
            next = "report it with this line; the service manager starts the program again",
            %backtrace,
            "a bug: {text}"
        );
        last();
        std::process::abort();
    }));
}
